"""The figures of long versions in docs/proof.md: new ones replace old ones, others stay."""

from collections import Counter

from tests.proof import BEGIN, END, HEAD, Shown, with_rows

PAGE = f"Before.\n{BEGIN}{HEAD}| kills (crash) | 1 | - | 5 s | 2020-01-01 | abc |\n{END}After.\n"


def claims(page: str) -> list[str]:
    """What the rows of the table are about."""
    table = page.split(BEGIN)[1].split(END, maxsplit=1)[0]
    return [row.split(" | ")[0].removeprefix("| ") for row in table.splitlines()[2:]]


def test_a_new_row_stands_in_order_and_the_page_around_it_stays() -> None:
    shown = Shown(cases=1_000, took_s=3_720, counts=Counter({"kills": 8, "clones": 2_000}))
    page = with_rows(PAGE, {"a seed (simulation)": shown})
    assert claims(page) == ["a seed (simulation)", "kills (crash)"]
    assert "| a seed (simulation) | 1,000 | 2,000 clones, 8 kills | 62 min | " in page
    assert page.startswith("Before.\n")
    assert page.endswith("After.\n")


def test_a_row_is_replaced() -> None:
    page = with_rows(PAGE, {"kills (crash)": Shown(cases=2, took_s=7)})
    assert claims(page) == ["kills (crash)"]
    assert "| kills (crash) | 2 | - | 7 s | " in page


def test_what_has_failed_loses_its_row() -> None:
    assert claims(with_rows(PAGE, {"kills (crash)": Shown(cases=24, failed=1)})) == []
