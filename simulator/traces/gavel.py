"""Gavel and Shockwave text traces: tab-separated, no header, one job a line; arrivals in seconds.

* 10 fields (`gavel`): no run time; it is `total_steps` over the steps per second of the job's model
  on that many V100s. `NoThroughput` where Gavel's table has no such pair.
* 7 fields (`gavel-philly`): Philly jobs with random models; `total_steps` was made from Philly's
  run time times one rate per model, whatever the number of GPUs, so dividing gives it back.
* 12 fields (`shockwave`): carries its run time in seconds, before dynamic batch sizes.

A last line that is cut off (no newline, too few fields) is dropped: `CutOff`.
"""

from collections.abc import Iterator, Mapping
from typing import TextIO

from scheduler.domain.instants import SECOND, Duration, Instant
from simulator.errors import TraceError
from simulator.traces.job import Dropped, Parsed, TraceJob
from simulator.traces.source import Fields, Head

GAVEL_COLUMNS = (
    "job_type",
    "command",
    "working_directory",
    "step_flag",
    "needs_data_dir",
    "total_steps",
    "scale_factor",
    "priority",
    "slo",
    "arrival",
)
PHILLY_COLUMNS = (
    "job_type",
    "command",
    "step_flag",
    "needs_data_dir",
    "total_steps",
    "arrival",
    "scale_factor",
)
SHOCKWAVE_COLUMNS = (
    "job_type",
    "command",
    "working_directory",
    "step_flag",
    "needs_data_dir",
    "total_steps",
    "scale_factor",
    "mode",
    "priority",
    "slo",
    "duration",
    "arrival",
)

# Source: stanford-futuredata/gavel c4fa4009 (MIT), physical_cluster_throughputs.json, worker type
# v100, jobs that run alone: steps per second by number of GPUs.
V100_STEPS_PER_SECOND: Mapping[str, Mapping[int, float]] = {
    "A3C": {1: 7.47962},
    "CycleGAN": {1: 4.73559},
    "LM (batch size 10)": {1: 81.6516, 2: 163.129, 4: 121.478, 8: 615.093},
    "LM (batch size 20)": {1: 64.7425, 2: 132.174, 4: 110.997, 8: 497.295},
    "LM (batch size 40)": {1: 50.049, 2: 91.5927, 4: 96.0312, 8: 359.307},
    "LM (batch size 5)": {1: 114.111, 2: 185.724, 4: 126.716, 8: 698.773},
    "LM (batch size 80)": {1: 31.6896, 2: 58.0915, 4: 74.8073, 8: 231.176},
    "Recommendation (batch size 1024)": {1: 150.539},
    "Recommendation (batch size 2048)": {1: 88.207},
    "Recommendation (batch size 4096)": {1: 45.8499},
    "Recommendation (batch size 512)": {1: 253.63},
    "Recommendation (batch size 8192)": {1: 22.2468},
    "ResNet-18 (batch size 128)": {1: 22.3716, 2: 23.9854, 4: 69.9505, 8: 162.092},
    "ResNet-18 (batch size 16)": {1: 32.3534, 2: 100.142, 4: 123.854, 8: 382.597},
    "ResNet-18 (batch size 256)": {1: 11.9493, 2: 15.8828, 4: 27.7821, 8: 81.5066},
    "ResNet-18 (batch size 32)": {1: 29.9472, 2: 94.2489, 4: 114.733, 8: 340.038},
    "ResNet-18 (batch size 64)": {1: 24.0932, 2: 74.1359, 4: 95.5881, 8: 255.829},
    "ResNet-50 (batch size 128)": {1: 2.53011, 2: 4.22301, 4: 7.02929, 8: 10.2932},
    "ResNet-50 (batch size 16)": {1: 12.2169, 2: 13.8598, 4: 23.1956, 8: 27.7991},
    "ResNet-50 (batch size 32)": {1: 7.93037, 2: 10.8346, 4: 13.7632, 8: 24.0674},
    "ResNet-50 (batch size 64)": {1: 4.52576, 2: 7.92205, 4: 9.45195, 8: 17.3032},
    "Transformer (batch size 128)": {1: 5.6422, 2: 10.0692, 4: 14.1745, 8: 30.8835},
    "Transformer (batch size 16)": {1: 11.0641, 2: 14.1538, 4: 20.085, 8: 71.6517},
    "Transformer (batch size 256)": {1: 1.59514, 2: 2.88524, 4: 4.76305, 8: 9.71702},
    "Transformer (batch size 32)": {1: 9.68286, 2: 13.328, 4: 22.8225, 8: 63.9777},
    "Transformer (batch size 64)": {1: 8.20956, 2: 15.8765, 4: 19.6596, 8: 49.6507},
}

# Fitted here: total_steps of msr_seed0/103959.trace (Gavel c4fa4009, MIT) over the run time of the
# same job in ElasticFlow's philly_103959.csv (Apache-2.0), joined by arrival; the digits are those
# on which all jobs of a model agree.
PHILLY_STEPS_PER_SECOND: Mapping[str, float] = {
    "A3C": 8.2330340,
    "CycleGAN": 4.918494,
    "LM (batch size 10)": 143.360513,
    "LM (batch size 20)": 107.950872,
    "LM (batch size 40)": 71.7230365,
    "LM (batch size 5)": 167.122858,
    "LM (batch size 80)": 43.903610,
    "Recommendation (batch size 1024)": 0.4799795,
    "Recommendation (batch size 2048)": 0.5675310,
    "Recommendation (batch size 4096)": 0.6244085,
    "Recommendation (batch size 512)": 0.3314816,
    "Recommendation (batch size 8192)": 0.6023548,
    "ResNet-18 (batch size 128)": 30.287505,
    "ResNet-18 (batch size 16)": 77.317373,
    "ResNet-18 (batch size 256)": 16.987371,
    "ResNet-18 (batch size 32)": 65.805406,
    "ResNet-18 (batch size 64)": 48.884181,
    "ResNet-50 (batch size 128)": 2.845980,
    "ResNet-50 (batch size 16)": 17.374389,
    "ResNet-50 (batch size 32)": 9.920583,
    "ResNet-50 (batch size 64)": 5.457599,
    "Transformer (batch size 128)": 5.771211,
    "Transformer (batch size 16)": 12.845653,
    "Transformer (batch size 256)": 1.707030,
    "Transformer (batch size 32)": 12.475278,
    "Transformer (batch size 64)": 9.568024,
}


def recognises_gavel(head: Head) -> bool:
    """Whether the lines have Gavel's 10 fields."""
    return head.first.count("\t") + 1 == len(GAVEL_COLUMNS)


def recognises_gavel_philly(head: Head) -> bool:
    """Whether the lines have the 7 fields of Gavel's older traces."""
    return head.first.count("\t") + 1 == len(PHILLY_COLUMNS)


def recognises_shockwave(head: Head) -> bool:
    """Whether the lines have Shockwave's 12 fields."""
    return head.first.count("\t") + 1 == len(SHOCKWAVE_COLUMNS)


def parse_gavel(stream: TextIO, source: str) -> Iterator[Parsed]:
    """Jobs of a 10-field trace."""
    for row in _rows(stream, source, GAVEL_COLUMNS):
        if isinstance(row, Dropped):
            yield row
            continue
        rates = V100_STEPS_PER_SECOND.get(row.text("job_type"), {})
        rate = rates.get(row.count("scale_factor"))
        if rate is None:
            yield Dropped(row=row.line, reason="NoThroughput")
        else:
            yield _job(row, Duration(round(row.count("total_steps") / rate * SECOND)))


def parse_gavel_philly(stream: TextIO, source: str) -> Iterator[Parsed]:
    """Jobs of a 7-field trace."""
    for row in _rows(stream, source, PHILLY_COLUMNS):
        if isinstance(row, Dropped):
            yield row
            continue
        rate = PHILLY_STEPS_PER_SECOND.get(row.text("job_type"))
        if rate is None:
            yield Dropped(row=row.line, reason="NoThroughput")
        else:
            # Steps were cut to whole ones, and Philly's run times are whole seconds.
            whole_seconds = round((row.count("total_steps") + 0.5) / rate)
            yield _job(row, Duration(whole_seconds * SECOND))


def parse_shockwave(stream: TextIO, source: str) -> Iterator[Parsed]:
    """Jobs of a 12-field trace."""
    for row in _rows(stream, source, SHOCKWAVE_COLUMNS):
        yield row if isinstance(row, Dropped) else _job(row, row.time("duration"))


def _rows(stream: TextIO, source: str, names: tuple[str, ...]) -> Iterator[Fields | Dropped]:
    columns = {name: index for index, name in enumerate(names)}
    for line, text in enumerate(stream, start=1):
        values = text.rstrip("\r\n").split("\t")
        if values == [""]:
            continue
        if len(values) == len(names):
            yield Fields(source, line, values, columns)
        elif len(values) < len(names) and not text.endswith("\n"):
            yield Dropped(row=line, reason="CutOff")
        else:
            raise TraceError(source, line, f"has {len(values)} fields instead of {len(names)}")


def _job(row: Fields, duration: Duration) -> Parsed:
    gpus = row.count("scale_factor")
    if gpus == 0:
        return Dropped(row=row.line, reason="NoGpus")
    if duration == 0:
        return Dropped(row=row.line, reason="NoRunTime")
    return TraceJob(
        row=row.line,
        name=f"row-{row.line}",
        arrival=Instant(row.time("arrival")),
        duration=duration,
        gpus=gpus,
        model=row.text("job_type"),
        iterations=row.count("total_steps"),
    )
