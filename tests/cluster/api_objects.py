"""The tests' own client of an API server: plain JSON objects, one method a verb, no retries."""

import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2

Object = dict[str, Any]
MERGE_PATCH = "application/merge-patch+json"
TIMEOUT_S = 60.0


class ApiError(Exception):
    """The server refused."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text[:1000]}")
        self.status = status


class ApiObjects:
    """An admin's view of the cluster, for arranging and for looking."""

    def __init__(self, url: str, *, token: str, ca: Path) -> None:
        self._http = httpx2.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            verify=ssl.create_default_context(cafile=str(ca)),
            timeout=TIMEOUT_S,
        )

    def close(self) -> None:
        """Let the connections go."""
        self._http.close()

    def get(self, path: str, **query: str) -> Object:
        """One object, or a list."""
        return self._send("GET", path, query=query)

    def find(self, path: str) -> Object | None:
        """One object; None if it is not there."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status == httpx2.codes.NOT_FOUND:
                return None
            raise

    def items(self, path: str, **query: str) -> list[Object]:
        """All objects of a list."""
        found: list[Object] = self.get(path, **query)["items"]
        return found

    def text(self, path: str) -> str:
        """The plain text at a path; empty where there is none yet."""
        answer = self._http.get(path)
        return answer.text if answer.is_success else ""

    def create(self, path: str, body: Object, **query: str) -> Object:
        """Make an object."""
        return self._send("POST", path, body, query=query)

    def replace(self, path: str, body: Object) -> Object:
        """Put an object."""
        return self._send("PUT", path, body)

    def patch(self, path: str, body: Object) -> Object:
        """Merge into an object."""
        return self._send("PATCH", path, body, kind=MERGE_PATCH)

    def delete(self, path: str, *, grace_s: int | None = None, **query: str) -> None:
        """Delete an object, or all of a list."""
        body = None if grace_s is None else {"gracePeriodSeconds": grace_s}
        self._send("DELETE", path, body, query=query)

    def remove(self, path: str) -> None:
        """Delete an object that may be gone already."""
        try:
            self.delete(path)
        except ApiError as error:
            if error.status not in (httpx2.codes.NOT_FOUND, httpx2.codes.CONFLICT):
                raise

    def delete_exactly(self, path: str, *, uid: str) -> None:
        """Remove that very object at once, as a kubelet does with a pod that has ended."""
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        self._send("DELETE", path, body)

    def _send(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        kind: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Object:
        answer = self._http.request(
            method,
            path,
            params=dict(query or {}),
            content=None if body is None else json.dumps(body),
            headers={"Content-Type": kind},
        )
        if answer.is_error:
            raise ApiError(answer.status_code, answer.text)
        found: Object = answer.json()
        return found
