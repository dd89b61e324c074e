"""`python -m tests.conformance FILE...`: run case files; ends 0 when all could be read, else 2."""

import sys
from pathlib import Path

from tests.conformance.files import UnreadableFileError, judge_file


def main(arguments: list[str]) -> int:
    """Tells what became of each file."""
    if not arguments or arguments[0].startswith("-"):
        sys.stderr.write("usage: python -m tests.conformance FILE...\n")
        return 0 if arguments[:1] in (["-h"], ["--help"]) else 2
    status = 0
    for name in arguments:
        try:
            judged = judge_file(Path(name))
        except UnreadableFileError as error:
            sys.stderr.write(f"{error}\n")
            status = 2
        else:
            sys.stdout.writelines(f"{line}\n" for line in judged.lines())
            status = status if judged.is_read else 2
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
