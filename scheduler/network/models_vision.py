"""Built-in profiles: vision, detection, speech, recommendation. Measured; see `source`."""

from scheduler.domain.communication import Family, ModelProfile, Precision
from scheduler.network.model_timing import timed

VISION_AND_OTHER_MODELS = (
    ModelProfile(
        name="alexnet",
        family=Family.VISION,
        parameters=61_100_840,
        timings=(*timed("P100", Precision.FP32, {512: 0.1714}),),
        source="tensorflow/docs r1 benchmarks; parameters: torchvision",
        is_built_in=True,
    ),
    ModelProfile(
        name="vgg16",
        family=Family.VISION,
        parameters=138_357_544,
        timings=(
            *timed("A100", Precision.FP32, {64: 0.1979, 128: 0.381, 256: 0.7612}),
            *timed("P100", Precision.FP32, {64: 0.4156}),
        ),
        source=(
            "pkusys/ElasticFlow throughputs (A100); tensorflow/docs r1 benchmarks; "
            "parameters: torchvision"
        ),
        is_built_in=True,
    ),
    ModelProfile(
        name="resnet18-cifar",
        family=Family.VISION,
        parameters=11_173_962,
        timings=(
            *timed("A100", Precision.FP32, {32: 0.03504, 363: 0.05882, 4096: 0.4071}),
            *timed(
                "K80", Precision.FP32, {16: 0.2085, 32: 0.1394, 64: 0.1418, 128: 0.5535, 256: 1.129}
            ),
            *timed(
                "P100",
                Precision.FP32,
                {16: 0.02788, 32: 0.02791, 64: 0.04483, 128: 0.08565, 256: 0.1295},
            ),
            *timed("RTX2080Ti", Precision.FP32, {32: 0.04347, 182: 0.08475, 1024: 0.3097}),
            *timed("T4", Precision.FP32, {32: 0.04279, 182: 0.1372, 1024: 0.7021}),
            *timed(
                "V100",
                Precision.FP32,
                {16: 0.03091, 32: 0.03339, 64: 0.04151, 128: 0.05557, 256: 0.09708},
            ),
        ),
        source="siasosp23/artifacts @aaf7a0d; stanford-futuredata/gavel throughputs",
        is_built_in=True,
    ),
    ModelProfile(
        name="resnet50",
        family=Family.VISION,
        parameters=25_557_032,
        timings=(
            *timed("A100", Precision.FP16, {256: 0.1078}),
            *timed("A100", Precision.FP32, {20: 0.1517, 163: 0.2438, 800: 0.7737}),
            *timed("A100", Precision.TF32, {256: 0.2816}),
            *timed("K80", Precision.FP32, {16: 0.4347, 32: 0.8087, 64: 1.615, 128: 2.88}),
            *timed("P100", Precision.FP32, {16: 0.1105, 32: 0.2046, 64: 0.337, 128: 0.6312}),
            *timed("RTX2080Ti", Precision.FP32, {20: 0.2142, 81: 0.3215, 200: 0.4632}),
            *timed("T4", Precision.FP32, {20: 0.1474, 81: 0.4207, 200: 0.9235}),
            *timed("V100", Precision.FP16, {256: 0.1992}),
            *timed("V100", Precision.FP32, {16: 0.08775, 32: 0.1284, 64: 0.2275, 128: 0.3107}),
        ),
        source=(
            "siasosp23/artifacts @aaf7a0d; "
            "stanford-futuredata/gavel throughputs; "
            "NVIDIA/DeepLearningExamples; tensorflow/docs r1 benchmarks"
        ),
        is_built_in=True,
    ),
    ModelProfile(
        name="resnet50-cifar",
        family=Family.VISION,
        parameters=23_528_522,
        timings=(*timed("A100", Precision.FP32, {64: 0.03496, 128: 0.03788, 256: 0.0509}),),
        source="pkusys/ElasticFlow throughputs (A100); parameters: torchvision, 10 classes",
        is_built_in=True,
    ),
    ModelProfile(
        name="resnet152",
        family=Family.VISION,
        parameters=60_192_808,
        timings=(*timed("P100", Precision.FP32, {64: 0.6972}),),
        source="tensorflow/docs r1 benchmarks; parameters: torchvision",
        is_built_in=True,
    ),
    ModelProfile(
        name="resnext101",
        family=Family.VISION,
        parameters=44_177_704,
        timings=(
            *timed("A100", Precision.FP16, {256: 0.2261}),
            *timed("A100", Precision.TF32, {128: 0.345}),
            *timed("V100", Precision.FP16, {128: 0.225}),
            *timed("V100", Precision.FP32, {64: 0.381}),
        ),
        source="NVIDIA/DeepLearningExamples",
        is_built_in=True,
    ),
    ModelProfile(
        name="inception-v3",
        family=Family.VISION,
        parameters=23_834_568,
        timings=(
            *timed("A100", Precision.FP32, {64: 0.2074, 128: 0.3903}),
            *timed("P100", Precision.FP32, {64: 0.4507}),
        ),
        source="pkusys/ElasticFlow throughputs (A100); tensorflow/docs r1 benchmarks",
        is_built_in=True,
    ),
    ModelProfile(
        name="unet",
        family=Family.VISION,
        parameters=31_031_685,
        timings=(
            *timed("A100", Precision.FP16, {1: 0.01445, 8: 0.06168}),
            *timed("A100", Precision.TF32, {1: 0.02744, 8: 0.1619}),
            *timed("V100", Precision.FP16, {1: 0.02524, 8: 0.1323}),
            *timed("V100", Precision.FP32, {1: 0.06139, 8: 0.4184}),
        ),
        source="NVIDIA/DeepLearningExamples; parameters: arXiv 1505.04597 layers",
        is_built_in=True,
    ),
    ModelProfile(
        name="yolov3",
        family=Family.DETECTION,
        parameters=61_626_049,
        timings=(
            *timed("A100", Precision.FP32, {4: 0.2474, 11: 0.3762, 32: 0.3931}),
            *timed("RTX2080Ti", Precision.FP32, {4: 0.4293, 6: 0.6824, 8: 0.5907}),
            *timed("T4", Precision.FP32, {4: 0.2669, 8: 0.3261, 16: 0.5726}),
            *timed("V100", Precision.FP32, {4: 0.2192, 11: 0.3239, 24: 0.3353}),
        ),
        source="siasosp23/artifacts @aaf7a0d",
        is_built_in=True,
    ),
    ModelProfile(
        name="ssd300",
        family=Family.DETECTION,
        parameters=22_894_902,
        timings=(
            *timed("A100", Precision.FP16, {32: 0.1772, 64: 0.09654, 128: 0.1767}),
            *timed("A100", Precision.TF32, {32: 0.2591, 64: 0.1757, 128: 0.3394}),
            *timed("V100", Precision.FP16, {32: 0.1789, 64: 0.1983}),
            *timed("V100", Precision.FP32, {32: 0.3376}),
        ),
        source="NVIDIA/DeepLearningExamples",
        is_built_in=True,
    ),
    ModelProfile(
        name="mask-rcnn",
        family=Family.DETECTION,
        parameters=44_401_393,
        timings=(
            *timed("A100", Precision.FP16, {2: 0.1095, 4: 0.14}),
            *timed("A100", Precision.TF32, {2: 0.1488, 4: 0.2173}),
            *timed("V100", Precision.FP16, {2: 0.1382, 4: 0.2067}),
            *timed("V100", Precision.FP32, {2: 0.2642, 4: 0.47}),
        ),
        source="NVIDIA/DeepLearningExamples; parameters: torchvision",
        is_built_in=True,
    ),
    ModelProfile(
        name="cyclegan",
        family=Family.GENERATIVE,
        parameters=28_285_832,
        timings=(
            *timed("K80", Precision.FP32, {1: 1.981}),
            *timed("P100", Precision.FP32, {1: 0.4162}),
            *timed("V100", Precision.FP32, {1: 0.2259}),
        ),
        source="stanford-futuredata/gavel throughputs",
        is_built_in=True,
    ),
    ModelProfile(
        name="deepspeech2",
        family=Family.SPEECH,
        parameters=38_000_000,
        overlap=0.0,
        timings=(*timed("A100", Precision.FP32, {32: 0.3308, 64: 0.625}),),
        source="pkusys/ElasticFlow throughputs (A100); parameters: about 38 M, arXiv 1512.02595",
        is_built_in=True,
    ),
    ModelProfile(
        name="neumf",
        family=Family.RECOMMENDATION,
        parameters=1_602_657,
        timings=(
            *timed("A100", Precision.FP32, {32: 0.00925, 1025: 0.00983, 32768: 0.01072}),
            *timed("RTX2080Ti", Precision.FP32, {32: 0.01229, 1025: 0.01452, 32768: 0.02026}),
            *timed("T4", Precision.FP32, {32: 0.00731, 1025: 0.00866, 32768: 0.02132}),
        ),
        source="siasosp23/artifacts @aaf7a0d",
        is_built_in=True,
    ),
    ModelProfile(
        name="vae-cf",
        family=Family.RECOMMENDATION,
        parameters=24_300_000,
        timings=(
            *timed("A100", Precision.FP16, {24576: 0.06724}),
            *timed("A100", Precision.TF32, {24576: 0.06942}),
            *timed("V100", Precision.FP16, {24576: 0.1152}),
            *timed("V100", Precision.FP32, {24576: 0.2153}),
        ),
        source=(
            "NVIDIA/DeepLearningExamples; parameters: 2 x 20108 x 600 and the latent layers, ML-20M"
        ),
        is_built_in=True,
    ),
)
