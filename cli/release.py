"""The client's version, and how far apart two versions may be."""

from importlib.metadata import version

MINORS_APART_MAX = 1


def version_of_client() -> str:
    """Version of this client."""
    return version("dally")


def skew(client: str, server: str) -> str:
    """A warning when client and server are more than one minor version apart, else empty."""
    try:
        (client_major, client_minor), (server_major, server_minor) = (
            tuple(int(part) for part in text.split(".")[:2]) for text in (client, server)
        )
    except ValueError:
        return f"can't compare versions {client!r} and {server!r}"
    is_close = client_major == server_major and abs(client_minor - server_minor) <= MINORS_APART_MAX
    if is_close:
        return ""
    return f"client {client} and server {server} are more than one minor version apart"
