"""Continue tokens: where a page ended, signed and bound to the list's filters."""

import base64
import hashlib
import hmac
import json

from api.errors import RequestError
from scheduler.domain.ids import JobId

_SIGNATURE_BYTES = 16
_LENGTH_MAX = 512


class PageSigner:
    """Makes and reads continue tokens. They do not expire: a page is found by its last item."""

    def __init__(self, secret: bytes) -> None:
        self._key = hmac.digest(secret, b"continue", "sha256")

    def token(self, filters: str, after: tuple[int, str]) -> str:
        """The token of the page that follows the item `after`."""
        payload = json.dumps([after[0], after[1]]).encode()
        signed = self._signature(filters, payload) + payload
        return base64.urlsafe_b64encode(signed).rstrip(b"=").decode()

    def after(self, filters: str, token: str) -> tuple[int, JobId]:
        """The item a token's page follows. Raises RequestError unless it was made for `filters`."""
        refusal = RequestError("InvalidContinue", "the continue token does not belong to this list")
        if len(token) > _LENGTH_MAX or not token.isascii():
            raise refusal
        try:
            signed = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        except ValueError as error:
            raise refusal from error
        signature, payload = signed[:_SIGNATURE_BYTES], signed[_SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, self._signature(filters, payload)):
            raise refusal
        instant, key = json.loads(payload)
        return int(instant), JobId(str(key))

    def _signature(self, filters: str, payload: bytes) -> bytes:
        bound = hashlib.sha256(filters.encode()).digest() + payload
        return hmac.digest(self._key, bound, "sha256")[:_SIGNATURE_BYTES]
