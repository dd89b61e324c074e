"""What distance costs the jobs of one cluster: step times per tier, predicted and measured."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd

from scheduler.domain.communication import CommunicationProfile, ModelProfile
from scheduler.domain.ids import GpuModel, NodeName
from scheduler.domain.job import Attempt, JobSpec
from scheduler.domain.links import FabricPlan
from scheduler.domain.progress import Progress
from scheduler.domain.step_times import LearnedStepTimes, StepReport, counted
from scheduler.domain.topology import Level, Node
from scheduler.network.cluster_fabric import USUAL, fabric_of_cluster
from scheduler.network.corrections import observed
from scheduler.network.own_profiles import MeasuredRun, profile_of_runs, timing_of
from scheduler.network.profiles import BUILT_IN, find_model, with_own
from scheduler.network.sensitivity import GangShape, Sensitivity, SensitivityTable
from scheduler.network.shape import shape_of_placement

__all__ = ["Distances", "Estimate", "gang_shape", "known_models", "model_named", "timing_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A job on one GPU model."""

    gpu_model: GpuModel
    sensitivity: Sensitivity


class Distances:
    """One cluster's fabric with all that was computed on it; made anew when its nodes change."""

    def __init__(
        self, levels: Sequence[Level], nodes: Sequence[Node], links: FabricPlan = USUAL
    ) -> None:
        self._nodes = tuple(nodes)
        self._levels = tuple(levels)
        self._links = links

    def estimates(
        self, spec: JobSpec, learned: LearnedStepTimes | None = None
    ) -> tuple[Estimate, ...]:
        """The job on every GPU model of the cluster that it accepts, by name."""
        gang = gang_shape(spec)
        models = {node.gpu_model for node in self._nodes if node.gpus or not spec.gpus}
        return tuple(
            Estimate(
                gpu_model=model,
                sensitivity=self._table.sensitivity(
                    spec.communication, gang, gpu_model=model, learned=learned
                ),
            )
            for model in sorted(models)
            if not spec.gpu_models or model in spec.gpu_models
        )

    def learned(
        self, spec: JobSpec, attempt: Attempt, report: Progress, before: LearnedStepTimes
    ) -> LearnedStepTimes:
        """What is known of a job's step times with one report of an attempt more."""
        if not all(a.node in self._paths for a in attempt.placement.assignments):
            return before
        shape = shape_of_placement(
            attempt.placement,
            gpus_by_role={role.name: role.gpus_per_worker for role in spec.roles},
            paths_by_node=self._paths,
        )
        if shape is None:
            return before
        model = self._models[attempt.placement.assignments[0].node]
        time = self._table.iteration_time(spec.communication, shape, gpu_model=model)
        level = self._table.fabric.level_name(shape.tier)
        after = observed(
            before,
            level=level,
            predicted_s=time.total_s,
            measured_s=report.step_seconds,
            gpu_model=model,
        )
        if after is before:
            return before
        steps = StepReport(
            attempt=attempt.number,
            step=report.step,
            step_s=report.step_seconds,
            begins_anew=report.is_from_log,
        )
        return counted(after, level, model, steps)

    def profile(self, name: str, spec: JobSpec, learned: LearnedStepTimes) -> ModelProfile | None:
        """The profile of a job from its measured steps; None if there are none on this cluster."""
        declared = spec.communication or CommunicationProfile()
        ranks = gang_shape(spec).ranks
        runs = []
        for estimate in self.estimates(spec, learned):
            known = [
                (tier, found)
                for tier in estimate.sensitivity.tiers
                if (found := learned.at(tier.level, estimate.gpu_model)) is not None
            ]
            for closest, found in known[:1]:
                run = MeasuredRun(
                    gpu_model=estimate.gpu_model,
                    workload=self._table.workload(spec.communication, ranks, estimate.gpu_model),
                    shape=closest.shape,
                    # Of this shape; the run itself may have been on another one of the level.
                    step_s=found.ratio * closest.time.total_s,
                )
                runs.append(run)
        if not runs:
            return None
        model = declared.own_model or model_named(declared.model, BUILT_IN)
        return profile_of_runs(name, declared, model, runs, self._table.fabric)

    @cached_property
    def _table(self) -> SensitivityTable:
        return SensitivityTable(fabric_of_cluster(self._levels, self._nodes, self._links))

    @cached_property
    def _paths(self) -> Mapping[NodeName, tuple[str, ...]]:
        return {node.name: node.path for node in self._nodes}

    @cached_property
    def _models(self) -> Mapping[NodeName, GpuModel]:
        return {node.name: node.gpu_model for node in self._nodes}


def known_models(own: Iterable[ModelProfile] = ()) -> Mapping[str, ModelProfile]:
    """The models that a job file may name; an own one hides a built-in one of its name."""
    return with_own(own)


def model_named(name: str, models: Mapping[str, ModelProfile]) -> ModelProfile | None:
    """The model of that name, whatever its case and separators."""
    return find_model(name, models)


def gang_shape(spec: JobSpec) -> GangShape:
    """The gang's ranks, and how many of them always share a node."""
    per_worker = [role.gpus_per_worker for role in spec.roles if role.gpus_per_worker]
    if not per_worker:
        return GangShape(ranks=spec.workers)
    return GangShape(ranks=spec.gpus, ranks_per_worker=gcd(*per_worker))
