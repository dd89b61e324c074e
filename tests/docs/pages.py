"""Pages whose commands are run: how they mark them, and a shell that runs them as a reader would.

A page marks its code blocks by the word after the language:

    ```sh server      started once for the page, in the background; what it prints is read for the
                      `dally config` line, which is then run, as the page tells the reader to do
    ```sh runnable    run line by line in one shell; every command must end with 0
    ```text output    what the block before prints; `...` stands for anything, lines may be left out

Blocks run from top to bottom in a fresh home and in a folder that looks like the checkout.
"""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.source_tree import ROOT, files

BLOCK = re.compile(r"^```(\w+) (server|runnable|output)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
START_LIMIT_S = 180
BLOCK_LIMIT_S = 400
"""Of a busy machine: a command takes seconds there, and a block has several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One marked code block."""

    page: Path
    line: int
    kind: str
    text: str

    @property
    def place(self) -> str:
        """Where it stands."""
        return f"{self.page}:{self.line}"


def marked_pages() -> list[Path]:
    """Every page with a marked block."""
    markdown = [file for file in files() if file.suffix == ".md"]
    return [file for file in markdown if BLOCK.search((ROOT / file).read_text())]


def blocks(page: Path, text: str) -> list[Block]:
    """The marked blocks of a page, from the top."""
    return [
        Block(page=page, line=text.count("\n", 0, found.start()) + 1, kind=found[2], text=found[3])
        for found in BLOCK.finditer(text)
    ]


def unprinted(expected: str, printed: str) -> list[str]:
    """The lines of an output block that were not printed, in their order."""
    rest = printed.splitlines()
    missing = []
    for line in filter(None, map(str.rstrip, expected.splitlines())):
        parts = (re.escape(part) for part in re.split(r"\.\.\.", line))
        pattern = re.compile(".*".join(parts) + r"\s*")
        at = next((n for n, shown in enumerate(rest) if pattern.fullmatch(shown)), None)
        if at is None:
            missing.append(line)
        else:
            del rest[: at + 1]
    return missing


class Reader:
    """Somebody who follows a page in a shell of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server: subprocess.Popen[bytes] | None = None
        self._server_output = folder / "server-output"
        (folder / "home").mkdir()
        self._checkout = folder / "dally"
        self._checkout.mkdir()
        for name in (".venv", "docs", "examples"):
            (self._checkout / name).symlink_to(ROOT / name)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("DALLY")}
        self._environment = kept | {
            "HOME": str(folder / "home"),
            "PATH": f"{ROOT / '.venv/bin'}{os.pathsep}{os.environ['PATH']}",
            # Several servers may run on this machine; a page says nothing about the port.
            "DALLYD_PORT": "0",
        }

    def follow(self, page_blocks: list[Block]) -> None:
        """Do what the page says, from top to bottom."""
        printed = ""
        for block in page_blocks:
            if block.kind == "server":
                self._start(block)
            elif block.kind == "runnable":
                printed = self._run(block.text, block.place)
            else:
                missing = unprinted(block.text, printed)
                assert not missing, f"{block.place}: not printed: {missing}\nprinted:\n{printed}"

    def stop(self) -> None:
        """End the server as Ctrl-C does; it must end by itself."""
        if self._server is not None:
            self._server.send_signal(signal.SIGINT)
            try:
                self._server.wait(timeout=START_LIMIT_S)
            finally:
                self._server.kill()

    def _start(self, block: Block) -> None:
        with self._server_output.open("wb") as output:
            self._server = subprocess.Popen(  # noqa: S603 - the page's own command
                ["/bin/bash", "-c", f"exec {block.text.strip()}"],
                cwd=self._checkout,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._run(self._printed_config_line(block), block.place)

    def _printed_config_line(self, block: Block) -> str:
        """The `dally config` line that the server tells the reader to run."""
        assert self._server is not None
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline and self._server.poll() is None:
            if found := re.search(r"dally config .*", self._server_output.read_text()):
                return found[0]
            time.sleep(0.05)
        raise AssertionError(
            f"{block.place}: printed no `dally config` line:\n{self._server_output.read_text()}"
        )

    def _run(self, text: str, place: str) -> str:
        done = subprocess.run(  # noqa: S603 - the page's own commands
            ["/bin/bash", "-euo", "pipefail", "-c", text],
            cwd=self._checkout,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=BLOCK_LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, f"{place}: ended with {done.returncode}:\n{done.stdout}"
        return done.stdout


@contextmanager
def a_reader(folder: Path) -> Iterator[Reader]:
    """A reader whose server is stopped at the end."""
    reader = Reader(folder)
    try:
        yield reader
    finally:
        reader.stop()
