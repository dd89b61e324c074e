"""The faults that are planted, one at a time, and the test that must go red for each."""

from collections.abc import Iterator

from tests.mutations.planted_kubernetes import KUBERNETES_MUTATIONS
from tests.mutations.planting import Mutation

CONTROL = "scheduler/control"
LOCAL = "scheduler/adapters/local"


CORE_MUTATIONS = (
    Mutation(
        what="a claim is written without the leader's epoch",
        path=f"{CONTROL}/applying.py",
        old="events=(events.gang_placed(starting, attempt, now),),\n        epoch=epoch,",
        new="events=(events.gang_placed(starting, attempt, now),),",
        found_by="tests/unit/control/test_outages.py::test_a_deposed_leader_writes_nothing",
    ),
    Mutation(
        what="the cluster is asked for things although the lease has lapsed",
        path=f"{CONTROL}/outside.py",
        old="if not self.leadership.is_leader():",
        new="if False:",
        found_by="tests/unit/control/test_leases.py"
        "::test_nothing_is_asked_of_the_cluster_while_the_lease_has_lapsed",
    ),
    Mutation(
        what="a tick that a lapsed lease has ended counts as finished",
        path=f"{CONTROL}/loop.py",
        old="            self._take_up_again()\n"
        '            self._outside.sink.emit("lease_lapsed", {})',
        new='            self._outside.sink.emit("lease_lapsed", {})',
        found_by="tests/unit/control/test_leases.py"
        "::test_whatever_a_tick_left_undone_is_done_once_by_a_later_one",
    ),
    Mutation(
        what="a gang counts as prepared before every worker is made",
        path=f"{CONTROL}/moves.py",
        old="    if not gang.in_state(*_MADE):",
        new="    if False:",
        found_by="tests/unit/control/test_launching.py"
        "::test_no_worker_runs_before_every_worker_is_made",
    ),
    Mutation(
        what="GPUs are freed when the stop begins, not when the workers have ended",
        path=f"{CONTROL}/moves.py",
        old="    return Move(gang=gang, events=(events.gang_stopping(job, attempt, moment.now),))",
        new="    freed = tuple(held.rank for held in gang.reservations)\n"
        "    gang = replace(gang, reservations=())\n"
        "    told = (events.gang_stopping(job, attempt, moment.now),)\n"
        "    return Move(gang=gang, freed=freed, events=told)",
        found_by="tests/unit/control/test_cancelling.py"
        "::test_gpus_of_a_stopping_gang_are_held_until_its_workers_have_ended",
    ),
    Mutation(
        what="an attempt is over when one of its workers is",
        path=f"{CONTROL}/gang.py",
        old="        return all(\n            rank in ended or (self",
        new="        return any(\n            rank in ended or (self",
        found_by="tests/unit/control/test_ends.py::test_one_failing_rank_stops_all_the_others",
    ),
    Mutation(
        what="a new leader does not ask again for a stop that the old one had asked for",
        path=f"{CONTROL}/settling.py",
        old="    if phase is AttemptPhase.STOPPING:\n        return Wish.STOP",
        new="    if phase is AttemptPhase.STOPPING:\n        return None",
        found_by="tests/unit/control/test_outages.py"
        "::test_a_gang_whose_making_was_never_asked_for_can_be_cancelled_after_a_restart",
    ),
    Mutation(
        what="a gang that is being made counts as absent",
        path=f"{CONTROL}/cluster_watch.py",
        old=" and key not in self._unsettled",
        new="",
        found_by="tests/simulation/test_loop.py"
        "::test_promises_hold_under_trouble_and_every_job_ends_after_it",
    ),
    Mutation(
        what="a list with gaps counts as a whole one",
        path=f"{CONTROL}/cluster_watch.py",
        old="self.looks if view.is_complete else 0",
        new="self.looks",
        found_by="tests/unit/control/test_cluster_watch.py"
        "::test_a_list_with_gaps_says_nothing_whatever_was_known_before",
    ),
    Mutation(
        what="GPUs of a job that can not be read are given away",
        path=f"{CONTROL}/live_jobs.py",
        old="        self.held_by_stuck = state.held_by_stuck\n",
        new="",
        found_by="tests/contract/test_stuck_jobs_in_the_loop.py"
        "::test_nodes_that_change_do_not_free_what_it_holds",
    ),
    Mutation(
        what="a plan goes on although a void promise could not be withdrawn",
        path=f"{CONTROL}/loop.py",
        old="            self._basis = None\n            return True\n",
        new="            pass\n",
        found_by="tests/unit/control/test_preempting.py"
        "::test_nothing_starts_where_a_promise_could_not_be_withdrawn",
    ),
    Mutation(
        what="workers of an attempt that the store does not know are stopped though they run",
        path=f"{CONTROL}/strays.py",
        old="states <= TERMINAL_STATES | {WorkerState.MADE}",
        new="states",
        found_by="tests/unit/control/test_outages.py"
        "::test_workers_of_an_attempt_nobody_knows_are_stopped_only_while_they_wait",
    ),
    Mutation(
        what="the local executor swallows exit codes",
        path=f"{LOCAL}/folders.py",
        old='exit_code=int(end["exit_code"]) if "exit_code" in end else None,',
        new='exit_code=0 if "exit_code" in end else None,',
        found_by="tests/contract/test_cluster.py::test_an_end_is_reported_with_its_exit_code",
    ),
    Mutation(
        what="the local executor lets a gang run before all its workers are made",
        path=f"{LOCAL}/gang.py",
        old="if all(report is not None and report.state is WorkerState.MADE"
        " for report in self.reports):",
        new="if any(report is not None and report.state is WorkerState.MADE"
        " for report in self.reports):",
        found_by="tests/contract/test_cluster.py"
        "::test_a_worker_that_can_not_be_made_is_refused_and_the_gang_never_runs",
    ),
    Mutation(
        what="a new local executor takes up a gang that was forgotten",
        path=f"{LOCAL}/keeper.py",
        old="if not folder.is_forgotten():",
        new="if folder.exists():",
        found_by="tests/contract/test_cluster.py"
        "::test_a_forgotten_gang_is_not_reported_and_not_made_again",
    ),
    Mutation(
        what="the local executor gives a GPU away that a living worker has",
        path=f"{LOCAL}/gang_making.py",
        old="        taken = set(in_use.gpus)\n",
        new="        taken: set[int] = set()\n",
        found_by="tests/local/test_launching.py::test_no_gpu_is_given_twice",
    ),
    Mutation(
        what="a new local executor does not know that a gang was told to stop",
        path=f"{LOCAL}/gang.py",
        old="        self._stop_at = folder.stop_at()\n",
        new="        self._stop_at: int | None = None\n",
        found_by="tests/local/test_life_of_the_executor.py"
        "::test_a_gang_that_was_to_stop_before_it_was_made_is_never_made",
    ),
    Mutation(
        what="the local executor takes a worker for lost without ending its processes",
        path=f"{LOCAL}/gang.py",
        old="if rank not in self.living() or not processes.end_leftovers(worker):",
        new="if rank not in self.living():",
        found_by="tests/local/test_process_trees.py"
        "::test_a_killed_supervisor_takes_its_worker_along",
    ),
    Mutation(
        what="a view speaks for requests that are not worked off",
        path="scheduler/adapters/views.py",
        old="            attempts_unsettled=unsettled,\n",
        new="",
        found_by="tests/contract/test_cluster.py"
        "::test_what_was_just_asked_for_is_either_listed_or_unsettled",
    ),
)

MUTATIONS = (*CORE_MUTATIONS, *KUBERNETES_MUTATIONS)


def table() -> Iterator[str]:
    """The rows of the table in docs/proof.md."""
    for mutation in MUTATIONS:
        path, _, name = mutation.found_by.partition("::")
        yield f"| {mutation.what} | `{mutation.path}` | `{name}` in `{path}` |"
