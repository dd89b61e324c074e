"""Everything that ever happened to the pods of a namespace, and what must be true of it.

Reads the API server's own watch, every version of every object, and knows nothing of the product
but its labels and its gate.
"""

import json
import ssl
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import httpx2

from scheduler.adapters.kubernetes import names
from tests.cluster.api_objects import Object
from tests.cluster.cluster_fixtures import Place

Rank = tuple[str, str, str]
"""Job, attempt, rank."""

WATCH_S = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One version of one pod."""

    uid: str
    rank: Rank
    may_run: bool
    """Its gate is open, it is there and has not ended."""
    was_opened: bool


class PodHistory:
    """Watches from before the first pod to the end of the test."""

    def __init__(self, place: Place) -> None:
        plane = place.control_plane
        self._http = httpx2.Client(
            base_url=plane.url,
            headers={"Authorization": f"Bearer {plane.token}"},
            verify=ssl.create_default_context(cafile=str(plane.ca)),
            timeout=httpx2.Timeout(10.0, read=None),
        )
        self._path = place.pods_path
        self._seen: list[Seen] = []
        self._version = place.objects.get(self._path)["metadata"]["resourceVersion"]
        self._is_closing = threading.Event()
        self._failure = ""
        self._thread = threading.Thread(target=self._run, name="pod-history", daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """The thread ends with its stream, or with the run."""
        self._is_closing.set()

    def __len__(self) -> int:
        return len(self._seen)

    def opened_twice(self) -> dict[Rank, set[str]]:
        """Ranks of an attempt for which more than one pod was ever without its gate."""
        opened: defaultdict[Rank, set[str]] = defaultdict(set)
        for seen in self._checked():
            if seen.was_opened:
                opened[seen.rank].add(seen.uid)
        return {rank: uids for rank, uids in opened.items() if len(uids) > 1}

    def attempts_at_once(self) -> list[str]:
        """Jobs of which pods of two attempts could run at one moment."""
        alive: dict[str, Rank] = {}
        found: list[str] = []
        for seen in self._checked():
            if not seen.may_run:
                alive.pop(seen.uid, None)
                continue
            alive[seen.uid] = seen.rank
            job, attempt, _ = seen.rank
            others = {other for who, other, _ in alive.values() if who == job}
            if others != {attempt}:
                found.append(f"{job}: attempts {sorted(others)}")
        return found

    def _checked(self) -> list[Seen]:
        assert not self._failure, f"the history is not whole: {self._failure}"
        return list(self._seen)

    def _run(self) -> None:
        try:
            while not self._is_closing.is_set():
                for event in self._events():
                    self._take(event)
        except (httpx2.HTTPError, ValueError, KeyError) as error:
            if not self._is_closing.is_set():
                self._failure = repr(error)

    def _events(self) -> Iterator[Object]:
        query = {
            "watch": "1",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_S),
        }
        with self._http.stream("GET", self._path, params=query) as answer:
            answer.raise_for_status()
            for line in answer.iter_lines():
                yield json.loads(line)

    def _take(self, event: Object) -> None:
        pod = event["object"]
        if event["type"] == "ERROR":
            raise ValueError(str(pod))
        self._version = pod["metadata"]["resourceVersion"]
        labels = pod["metadata"].get("labels", {})
        if event["type"] == "BOOKMARK" or names.JOB_UID not in labels:
            return
        gates = [gate["name"] for gate in pod["spec"].get("schedulingGates", ())]
        is_open = names.GATE not in gates
        is_over = pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}
        self._seen.append(
            Seen(
                uid=pod["metadata"]["uid"],
                rank=(labels[names.JOB_UID], labels[names.ATTEMPT], labels[names.RANK]),
                was_opened=is_open,
                may_run=is_open and not is_over and event["type"] != "DELETED",
            )
        )
