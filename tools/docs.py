"""Generated files: writes them (`make docs`); a test compares them with what is committed."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tools.reference import (
    api,
    chart,
    commands,
    configuration,
    errors,
    job_file,
    metrics,
    server_commands,
    settings,
)

ROOT = Path(__file__).resolve().parents[1]

PAGES: Mapping[str, Callable[[], str]] = {
    ".env.example": settings.env_example,
    "docs/reference/configuration.md": configuration.page,
    "docs/reference/settings.md": settings.page,
    "api/openapi.json": api.openapi,
    "docs/reference/api.md": api.page,
    "docs/reference/cli.md": commands.page,
    "docs/reference/dallyd.md": server_commands.page,
    "docs/reference/errors.md": errors.page,
    "docs/reference/job-file.md": job_file.page,
    "docs/reference/metrics.md": metrics.page,
    "helm/README.md": chart.page,
}


def stale(name: str) -> bool:
    """Whether a generated file differs from what would be generated now."""
    file = ROOT / name
    return not file.exists() or file.read_text() != PAGES[name]()


def main() -> None:
    """Write every generated file that is stale."""
    for name, make in PAGES.items():
        if stale(name):
            file = ROOT / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(make())
            sys.stdout.write(f"wrote {name}\n")


if __name__ == "__main__":
    main()
