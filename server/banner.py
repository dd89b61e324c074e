"""What `dallyd serve` says on stdout when it is up: where it is, and the first token."""

from scheduler.domain.explain import counted
from scheduler.settings import Executor, Settings
from server.data_folder import is_sqlite
from server.machine import Machine


def banner(settings: Settings, machine: Machine | None, address: str, token: str | None) -> str:
    """A few lines; the token and a command to use it only when one was made."""
    store = str(settings.data_dir) if is_sqlite(settings) else "PostgreSQL"
    where = _of(machine) or _on_kubernetes(settings)
    lines = [f"Dally serves on {address} (data in {store}{where})"]
    if token is not None:
        lines += [
            "",
            f"An admin token was made. It is shown this once and is good for {settings.token_days} "
            "days:",
            f"  {token}",
            "Set up the client with it:",
            f"  dally config set-context local --server {address} --token {token}",
            "If it gets lost, make a new one: dallyd admin token",
        ]
    return "\n".join(lines) + "\n"


def _of(machine: Machine | None) -> str:
    if machine is None:
        return ""
    what = "GPU" if machine.has_gpus else "slot"
    nodes = len(machine.nodes)
    return f"; {counted(machine.gpus, what)} on {counted(nodes, 'node')}"


def _on_kubernetes(settings: Settings) -> str:
    return "; workers are pods" if settings.executor is Executor.KUBERNETES else ""
