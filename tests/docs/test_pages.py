"""Every command that a page marks as runnable works, and prints what the page says."""

from pathlib import Path

import pytest

from tests.docs.pages import a_reader, blocks, marked_pages, unprinted
from tests.source_tree import ROOT

PAGE = """
Start it:

```sh server
dallyd serve
```

```sh
not run
```

```sh runnable
dally get jobs
```

```text output
NAME
```
"""


@pytest.mark.parametrize("page", marked_pages(), ids=str)
def test_the_commands_of_a_page_work(page: Path, tmp_path: Path) -> None:
    with a_reader(tmp_path) as reader:
        reader.follow(blocks(page, (ROOT / page).read_text()))


def test_only_marked_blocks_are_taken_in_order() -> None:
    found = blocks(Path("page.md"), PAGE)
    assert [(block.kind, block.text, block.line) for block in found] == [
        ("server", "dallyd serve\n", 4),
        ("runnable", "dally get jobs\n", 12),
        ("output", "NAME\n", 16),
    ]


@pytest.mark.parametrize(
    ("expected", "printed", "missing"),
    [
        pytest.param("a\nb\n", "a\nx\nb\n", [], id="lines may stand between"),
        pytest.param("b\na\n", "a\nb\n", ["a"], id="but the order counts"),
        pytest.param("job ... done (...)", "job 7 is done (2 s)", [], id="dots stand for anything"),
        pytest.param("job", "job 7", ["job"], id="a line is a whole line"),
    ],
)
def test_an_output_block_must_be_printed(expected: str, printed: str, missing: list[str]) -> None:
    assert unprinted(expected, printed) == missing


def test_a_command_that_fails_is_told_with_its_place(tmp_path: Path) -> None:
    page = blocks(Path("page.md"), "```sh runnable\necho before; false\n```\n")
    with (
        a_reader(tmp_path) as reader,
        pytest.raises(AssertionError, match=r"page\.md:1: ended with 1:\nbefore"),
    ):
        reader.follow(page)


def test_a_server_that_prints_no_config_line_is_told(tmp_path: Path) -> None:
    page = blocks(Path("page.md"), "```sh server\necho refused\n```\n")
    with a_reader(tmp_path) as reader, pytest.raises(AssertionError, match="refused"):
        reader.follow(page)
