"""What a worker says to the agent of another one: proof that it knows the secret, then one request.

agent ──▶ NONCE\n       client ──▶ HMAC(secret, NONCE + REQUEST) REQUEST\n       agent ──▶ CODE\n

A request is JSON, `{"run": COMMAND}` or `{"end": true}`. Whoever can not prove it gets no answer.
"""

import hashlib
import hmac
import json
import secrets
import socket
import time
from dataclasses import dataclass

LINE_BYTES_MAX = 1 << 20
HANDSHAKE_S_MAX = 10.0
RETRY_S = 0.5
LEAST_S = 0.001
"""A timeout of nothing would mean not to wait at all."""

NO_ANSWER = 255
"""What ssh says when it was not the command that failed."""


class SilentError(Exception):
    """The other side did not answer, or not as it should."""


class UnreachedError(SilentError):
    """Nobody could be connected to: nothing was said."""


@dataclass(frozen=True)
class Request:
    """What an agent is asked for: to run a command, or (without one) to end."""

    command: str = ""

    def text(self) -> str:
        """As it goes over the wire."""
        return json.dumps({"run": self.command} if self.command else {"end": True})

    @staticmethod
    def of(text: str) -> "Request":
        """What was sent. Raises SilentError."""
        try:
            data = json.loads(text)
        except ValueError as error:
            raise SilentError("no JSON") from error
        if data == {"end": True}:
            return Request()
        command = data.get("run") if isinstance(data, dict) else None
        if not isinstance(command, str) or not command or "\0" in command:
            raise SilentError("neither a command nor an end")
        return Request(command=command)


def take_request(
    connection: socket.socket, secret: str, *, patience_s: float = HANDSHAKE_S_MAX
) -> Request:
    """The request of whoever has connected. Raises SilentError and OSError."""
    connection.settimeout(patience_s)
    nonce = secrets.token_hex(32)
    connection.sendall(f"{nonce}\n".encode())
    proof, _, text = _line(connection, within_s=patience_s).partition(" ")
    if not hmac.compare_digest(proof.encode(), _proof(secret, nonce, text).encode()):
        raise SilentError("it does not know the secret of this gang")
    connection.settimeout(None)
    return Request.of(text)


def answer(connection: socket.socket, code: int) -> None:
    """Say how it went. Raises OSError."""
    connection.sendall(f"{code}\n".encode())


def ask(
    address: tuple[str, int],
    secret: str,
    request: Request,
    *,
    patience_s: float,
    answer_s_max: float | None = None,
) -> int:
    """Have an agent do something; its answer. Raises SilentError.

    The name of a worker may not resolve yet and its agent may not listen yet: that is waited for.
    A command may take any time, other answers may not: `answer_s_max`.
    """
    with _connected(address, patience_s) as connection:
        try:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connection.settimeout(HANDSHAKE_S_MAX)
            nonce = _line(connection, within_s=HANDSHAKE_S_MAX)
            text = request.text()
            connection.sendall(f"{_proof(secret, nonce, text)} {text}\n".encode())
            return int(_line(connection, within_s=answer_s_max))
        except (OSError, ValueError) as error:
            raise SilentError(str(error)) from error


def _connected(address: tuple[str, int], patience_s: float) -> socket.socket:
    end = time.monotonic() + patience_s
    while True:
        try:
            return socket.create_connection(address, timeout=HANDSHAKE_S_MAX)
        except OSError as error:
            if time.monotonic() >= end:
                raise UnreachedError(str(error)) from error
        time.sleep(RETRY_S)


def _proof(secret: str, nonce: str, text: str) -> str:
    message = f"{nonce} {text}".encode()
    return hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()


def _line(connection: socket.socket, *, within_s: float | None) -> str:
    """Up to the next line break; None: however long that takes. Raises SilentError and OSError."""
    end = None if within_s is None else time.monotonic() + within_s
    data = b""
    while not data.endswith(b"\n"):
        if len(data) > LINE_BYTES_MAX:
            raise SilentError("too long a line")
        # All of the line has that time, or a byte now and then would hold the other side for ever.
        connection.settimeout(None if end is None else max(LEAST_S, end - time.monotonic()))
        try:
            more = connection.recv(65_536)
        except TimeoutError as error:
            raise SilentError("it took too long") from error
        if end is not None and time.monotonic() > end:
            raise SilentError("it took too long")
        if not more:
            raise SilentError("it hung up")
        data += more
    return data[:-1].decode(errors="replace")
