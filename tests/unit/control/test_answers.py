"""Every wait is explained, and telling costs what has changed."""

from scheduler.control.answers import ANSWERS_MAX, EXACT_PLACES, AnswerBook
from scheduler.domain.ids import JobId
from scheduler.domain.instants import seconds
from scheduler.domain.job import FailurePolicy, JobPhase
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.placement import BackingOff, BehindHead, Blocked, TooFewGpus
from scheduler.ports.unit import Answer, SaveKnobs, SaveQueue, Unit
from tests.builders import a_job, a_queue, at
from tests.worlds import Script, World, runs


def answer_of(world: World, name: str) -> Answer:
    answer = world.store.answer(JobId(f"id-{name}"))
    assert answer is not None
    return answer


def test_a_job_that_does_not_fit_says_why_with_numbers() -> None:
    world = World("r1: 8 8")
    world.submit(a_job("a", workers=2), a_job("b", workers=2), a_job("c"))
    world.ticks()
    first, second = answer_of(world, "b"), answer_of(world, "c")
    assert isinstance(first.blocked, TooFewGpus)
    assert (first.blocked.workers_wanted, first.blocked.workers_fit_max) == (2, 0)
    assert (first.position, second.position) == (1, 2)
    assert second.blocked == BehindHead(jobs_ahead=1)


def test_a_job_that_backs_off_says_until_when() -> None:
    world = World(script=Script(runs(1, exit_code=1)))
    world.submit(a_job("a", failure_policy=FailurePolicy(restarts_max=1)))
    world.run(seconds(3))
    assert world.phase("a") is JobPhase.PENDING
    not_before = world.job("a").not_before
    assert not_before is not None
    said = world.attempts("a")[0].message
    assert "exit code 1" in said
    assert answer_of(world, "a").blocked == BackingOff(until=not_before, restarts=1, said=said)


def test_the_reason_flips_in_the_cycle_after_its_cause_went() -> None:
    world = World("r1: 8", script=Script(runs(10)))
    world.submit(a_job("a"), a_job("b"), a_job("c"))
    world.run(seconds(9))
    assert isinstance(answer_of(world, "c").blocked, BehindHead)
    world.run(seconds(2))
    assert isinstance(answer_of(world, "c").blocked, TooFewGpus)


def test_an_answer_is_dated_from_when_its_kind_was_first_given() -> None:
    world = World("r1: 8", script=Script(runs(100)))
    world.submit(a_job("a"), a_job("b"))
    began = world.clock.now()
    world.run(seconds(50))
    assert answer_of(world, "b").at == began


def test_the_recorded_cycle_is_never_older_than_a_few_seconds() -> None:
    world = World()
    world.run(seconds(100))
    cycle = world.store.last_cycle()
    assert cycle is not None
    assert world.clock.now() - cycle.at <= seconds(6)


def test_a_tick_in_which_nothing_changes_writes_nothing() -> None:
    world = World("r1: 8")
    world.submit(a_job("a"), a_job("b"))
    world.ticks()
    sequence = world.store.sequence()
    world.ticks()
    assert world.store.sequence() == sequence


def test_a_queue_with_a_backfilling_policy_passes_its_head() -> None:
    world = World("r1: 8 8")
    queue = a_queue("batch", policy="fifo-backfill")
    world.store.write(Unit(changes=(SaveQueue(queue=queue),)))
    world.submit(
        a_job("a", queue="batch"),
        a_job("b-wide", queue="batch", workers=2),
        a_job("c-small", queue="batch"),
    )
    world.ticks()
    assert (world.phase("b-wide"), world.phase("c-small")) == (JobPhase.PENDING, JobPhase.RUNNING)


def test_a_policy_is_changed_live() -> None:
    world = World("r1: 8 8")
    world.submit(a_job("a"), a_job("b-wide", workers=2), a_job("c-small"))
    world.ticks()
    assert world.phase("c-small") is JobPhase.PENDING
    world.store.write(Unit(changes=(SaveKnobs(knobs=PolicyKnobs(policy="fifo-backfill")),)))
    world.ticks()
    assert world.phase("c-small") is JobPhase.RUNNING


def test_numbers_deep_in_a_queue_follow_later_and_a_new_kind_of_reason_at_once() -> None:
    count = ANSWERS_MAX + 500
    jobs = {JobId(f"id-{n:05}"): a_job(f"{n:05}") for n in range(count)}
    book = AnswerBook()
    told = 0
    ahead = dict.fromkeys(jobs, BehindHead(jobs_ahead=1))
    while news := book.news(ahead, jobs, at(0)):
        told += len(news)
        assert len(news) <= ANSWERS_MAX
    assert told == count
    moved = dict.fromkeys(jobs, BehindHead(jobs_ahead=2))
    last = JobId(f"id-{count - 1:05}")
    changed: dict[JobId, Blocked] = {**moved, last: BackingOff(until=at(9), restarts=1)}
    news = book.news(changed, jobs, at(1))
    assert last in {answer.job_id for answer in news}
    assert {answer.position for answer in news} >= set(range(1, EXACT_PLACES + 1))
    assert book.is_behind
