"""Built-in profiles: language models up to BERT size. Numbers are measured; see `source`."""

from scheduler.domain.communication import Family, ModelProfile, Precision
from scheduler.network.model_timing import timed

LANGUAGE_MODELS = (
    ModelProfile(
        name="bert-base",
        family=Family.LANGUAGE,
        parameters=108_893_186,
        layers=12,
        hidden=768,
        sequence_tokens=384,
        timings=(
            *timed("A100", Precision.FP32, {4: 0.1485, 16: 0.1861, 48: 0.3418}),
            *timed("RTX2080Ti", Precision.FP32, {4: 0.2523, 8: 0.3678, 12: 0.4469}),
            *timed("T4", Precision.FP32, {4: 0.4553, 8: 0.7033, 12: 0.9215}),
            *timed("V100", Precision.FP32, {4: 0.1917, 16: 0.4393, 36: 0.8657}),
        ),
        source="siasosp23/artifacts @aaf7a0d",
        is_built_in=True,
    ),
    ModelProfile(
        name="bert-large",
        family=Family.LANGUAGE,
        parameters=336_226_108,
        layers=24,
        hidden=1024,
        sequence_tokens=128,
        timings=(
            *timed("A100", Precision.FP16, {32: 0.2896, 76: 0.5662}),
            *timed("A100", Precision.FP16, {64: 0.1794, 256: 0.4051, 312: 0.6425}),
            *timed("A100", Precision.FP16, {16: 0.2258, 32: 0.1368, 40: 0.4144}, tokens=512),
            *timed("A100", Precision.FP32, {38: 0.8656}),
            *timed("A100", Precision.TF32, {16: 0.2607, 32: 0.4529}),
            *timed("A100", Precision.TF32, {64: 0.2688, 128: 0.4104, 176: 0.622}),
            *timed("A100", Precision.TF32, {8: 0.2002, 16: 0.1475, 22: 0.4006}, tokens=512),
            *timed(
                "V100", Precision.FP16, {4: 0.1345, 6: 0.1535, 12: 0.255, 16: 0.3077, 24: 0.4523}
            ),
            *timed("V100", Precision.FP16, {16: 0.1191, 60: 0.2906, 64: 0.3403}),
            *timed("V100", Precision.FP16, {4: 0.1393, 8: 0.2265, 10: 0.2442}, tokens=512),
            *timed("V100", Precision.FP32, {2: 0.2717, 3: 0.3046, 8: 0.6934, 10: 0.9283}),
            *timed("V100", Precision.FP32, {8: 0.2029, 32: 0.6622}),
            *timed(
                "V100", Precision.FP32, {2: 0.2041, 4: 0.2105, 6: 0.5425, 8: 0.7176}, tokens=512
            ),
        ),
        source="NVIDIA/DeepLearningExamples",
        is_built_in=True,
    ),
    ModelProfile(
        name="electra-base",
        family=Family.LANGUAGE,
        parameters=110_000_000,
        layers=12,
        hidden=768,
        sequence_tokens=128,
        timings=(
            *timed("A100", Precision.FP16, {176: 0.1843}),
            *timed("A100", Precision.FP16, {32: 0.1009}, tokens=384),
            *timed("A100", Precision.FP16, {24: 0.1404}, tokens=512),
            *timed("A100", Precision.TF32, {88: 0.1651}),
            *timed("A100", Precision.TF32, {32: 0.2991}, tokens=384),
            *timed("A100", Precision.TF32, {12: 0.1333}, tokens=512),
            *timed("V100", Precision.FP16, {88: 0.1982, 176: 0.352}),
            *timed("V100", Precision.FP16, {16: 0.09543}, tokens=384),
            *timed("V100", Precision.FP16, {12: 0.1429, 24: 0.25}, tokens=512),
            *timed("V100", Precision.FP32, {40: 0.3448, 88: 0.6875}),
            *timed("V100", Precision.FP32, {8: 0.2286, 16: 0.4}, tokens=384),
            *timed("V100", Precision.FP32, {6: 0.25, 12: 0.4444}, tokens=512),
        ),
        source="NVIDIA/DeepLearningExamples; parameters: arXiv 2003.10555",
        is_built_in=True,
    ),
    ModelProfile(
        name="bart-large",
        family=Family.LANGUAGE,
        parameters=406_291_456,
        layers=24,
        hidden=1024,
        sequence_tokens=128,
        timings=(
            *timed("A100", Precision.FP16, {40: 0.5363}),
            *timed("A100", Precision.FP16, {200: 0.6125}),
            *timed("A100", Precision.FP16, {32: 0.4617}, tokens=512),
            *timed("A100", Precision.TF32, {24: 0.4937}),
            *timed("A100", Precision.TF32, {100: 0.4938}),
            *timed("A100", Precision.TF32, {16: 0.3869}, tokens=512),
        ),
        source="NVIDIA/DeepLearningExamples",
        is_built_in=True,
    ),
    ModelProfile(
        name="transformer-xl-base",
        family=Family.LANGUAGE,
        parameters=191_950_298,
        layers=16,
        hidden=512,
        sequence_tokens=192,
        timings=(
            *timed("A100", Precision.FP16, {32: 0.1025}),
            *timed("A100", Precision.TF32, {32: 0.1479}),
            *timed("V100", Precision.FP16, {16: 0.1044, 32: 0.1674}),
            *timed("V100", Precision.FP32, {16: 0.205}),
        ),
        source="NVIDIA/DeepLearningExamples",
        is_built_in=True,
    ),
    ModelProfile(
        name="transformer-xl-large",
        family=Family.LANGUAGE,
        parameters=285_167_482,
        layers=18,
        hidden=1024,
        sequence_tokens=384,
        timings=(
            *timed("A100", Precision.FP16, {8: 0.1425, 16: 0.2449}),
            *timed("A100", Precision.TF32, {8: 0.2119}),
            *timed("V100", Precision.FP16, {2: 0.1112, 4: 0.1504, 8: 0.2077}),
            *timed("V100", Precision.FP32, {2: 0.2158, 8: 0.5943}),
        ),
        source="NVIDIA/DeepLearningExamples",
        is_built_in=True,
    ),
    ModelProfile(
        name="transformer-multi30k",
        family=Family.LANGUAGE,
        parameters=53_000_000,
        layers=12,
        hidden=512,
        sequence_tokens=50,
        timings=(
            *timed(
                "K80", Precision.FP32, {16: 0.1829, 32: 0.2851, 64: 0.5707, 128: 1.019, 256: 2.182}
            ),
            *timed(
                "P100",
                Precision.FP32,
                {16: 0.1048, 32: 0.1271, 64: 0.1964, 128: 0.3254, 256: 0.5961},
            ),
            *timed(
                "V100",
                Precision.FP32,
                {16: 0.09038, 32: 0.09415, 64: 0.116, 128: 0.1836, 256: 0.6269},
            ),
        ),
        source=(
            "stanford-futuredata/gavel throughputs; "
            "parameters: 44 M for 6 + 6 layers of d512 and 2 x 9 k words"
        ),
        is_built_in=True,
    ),
    ModelProfile(
        name="lstm-lm",
        family=Family.LANGUAGE,
        parameters=13_990_000,
        overlap=0.0,
        timings=(
            *timed(
                "K80",
                Precision.FP32,
                {5: 0.03924, 10: 0.04203, 20: 0.05834, 40: 0.08696, 80: 0.1652},
            ),
            *timed(
                "P100",
                Precision.FP32,
                {5: 0.01102, 10: 0.01297, 20: 0.01719, 40: 0.02796, 80: 0.04726},
            ),
            *timed(
                "V100",
                Precision.FP32,
                {5: 0.00916, 10: 0.01225, 20: 0.01545, 40: 0.02211, 80: 0.03541},
            ),
        ),
        source="stanford-futuredata/gavel throughputs",
        is_built_in=True,
    ),
    ModelProfile(
        name="gpt2-small",
        family=Family.LANGUAGE,
        parameters=124_439_808,
        layers=12,
        hidden=768,
        sequence_tokens=1024,
        timings=(*timed("A100", Precision.FP32, {128: 0.1368, 256: 0.2441}),),
        source=(
            "pkusys/ElasticFlow throughputs (A100) (size unstated, taken as small); "
            "parameters: transformers count"
        ),
        is_built_in=True,
    ),
    ModelProfile(
        name="transformer-big",
        family=Family.LANGUAGE,
        parameters=210_000_000,
        layers=12,
        hidden=1024,
        sequence_tokens=1,
        timings=(*timed("A100", Precision.TF32, {10240: 0.2354}),),
        source="NVIDIA/DeepLearningExamples (batch in tokens); parameters: arXiv 1706.03762",
        is_built_in=True,
    ),
)
