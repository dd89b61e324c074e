"""Profiles of models: those that ship with the service, projects' own, and new ones from jobs."""

from collections.abc import Mapping
from dataclasses import replace

from scheduler.control.estimating import Distances
from scheduler.domain.communication import ModelProfile
from scheduler.domain.ids import ProjectName
from scheduler.domain.job import Job, JobSpec
from scheduler.engine.distance import known_models, model_named, timing_of
from scheduler.ports.job_store import JobStore

__all__ = [
    "known_models",
    "model_named",
    "own_model_in",
    "profile_of_job",
    "project_models",
    "timing_of",
]


def project_models(store: JobStore, project: ProjectName) -> Mapping[str, ModelProfile]:
    """The models that job files of a project may name, by name."""
    return known_models(store.profiles(project))


def own_model_in(spec: JobSpec, models: Mapping[str, ModelProfile]) -> JobSpec:
    """The spec with the project's own profile that it names, as it is now.

    A job is what was submitted: what becomes of the profile later does not change it.
    """
    profile = spec.communication
    if profile is None or not profile.model:
        return spec
    model = model_named(profile.model, models)
    if model is None or model.is_built_in:
        return spec
    return replace(spec, communication=replace(profile, own_model=model))


def profile_of_job(
    store: JobStore, job: Job, name: str, distances: Distances
) -> ModelProfile | None:
    """A profile from what the steps of a job have taught; None if they taught nothing."""
    stored = store.step_times([job.id]).get(job.id)
    found = None if stored is None else distances.profile(name, job.spec, stored.times)
    return None if found is None else replace(found, source=f"steps of job {job.name}")
