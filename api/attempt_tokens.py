"""Tokens with which rank 0 of an attempt reports its progress: signed, good for that alone."""

import base64
import hmac
import json

from scheduler.domain.ids import AttemptNumber, JobId
from scheduler.domain.reservation import AttemptKey

PREFIX = "dallya_"
_SIGNATURE_BYTES = 32
_LENGTH_MAX = 512


class AttemptTokens:
    """Signs and verifies. A token ends with its attempt: reports for one that ended are refused."""

    def __init__(self, secret: bytes) -> None:
        self._key = hmac.digest(secret, b"attempt", "sha256")

    def sign(self, attempt: AttemptKey) -> str:
        """The token of an attempt; the same each time."""
        payload = json.dumps([attempt.job_id, attempt.number]).encode()
        signed = hmac.digest(self._key, payload, "sha256") + payload
        return PREFIX + base64.urlsafe_b64encode(signed).rstrip(b"=").decode()

    def verify(self, token: str) -> AttemptKey | None:
        """The attempt a token was made for; None if it is not one of ours."""
        text = token.removeprefix(PREFIX)
        if text == token or len(token) > _LENGTH_MAX or not token.isascii():
            return None
        try:
            signed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except ValueError:
            return None
        signature, payload = signed[:_SIGNATURE_BYTES], signed[_SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, hmac.digest(self._key, payload, "sha256")):
            return None
        job_id, number = json.loads(payload)
        return AttemptKey(JobId(job_id), AttemptNumber(number))
