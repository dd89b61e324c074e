"""docs/reference/errors.md: every reason code a client can meet."""

from api.entry_reasons import ENTRY_REASONS
from api.reasons import REASONS
from tools.reference import markdown

_TEXT = """Every answer that is not a success is a problem body (RFC 9457,
`application/problem+json`) with a `reason` from this page. Where a job file is wrong, `errors`
lists all its mistakes at once, each with a JSON pointer, a reason of its own and, where it is
known, line and column."""


def page() -> str:
    """The whole page."""
    lines = [
        *markdown.head("Errors", _TEXT),
        "## Reasons of a problem",
        "",
        *markdown.table(
            ("reason", "status", "means", "what helps"),
            (
                (markdown.code(reason.code), str(int(reason.status)), reason.meaning, reason.remedy)
                for reason in REASONS.values()
            ),
        ),
        "## Reasons of one entry in `errors`",
        "",
        *markdown.table(
            ("reason", "means", "what helps"),
            (
                (markdown.code(reason.code), reason.meaning, reason.remedy)
                for reason in ENTRY_REASONS.values()
            ),
        ),
    ]
    return markdown.page(lines)
