"""Folders in memory: images are many files, which a disk is slow to write and slower to remove."""

import re
import subprocess
from pathlib import Path

MEMORY_KB_MIN = 14 << 20


def put_in_memory(folder: Path) -> bool:
    """Mount memory on an empty folder, if there is plenty; whether it was done."""
    facts = Path("/proc/meminfo").read_text()
    found = re.search(r"^MemAvailable: +(\d+) kB", facts, re.MULTILINE)
    if not found or int(found[1]) < MEMORY_KB_MIN:
        return False
    half = f"size={int(found[1]) // 2}k"
    command = ["mount", "-t", "tmpfs", "-o", half, "tmpfs", str(folder)]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - our own words
    return True


def take_out_of_memory(folder: Path) -> None:
    """Unmount it; what was in it is gone."""
    subprocess.run(["umount", "-l", str(folder)], check=True, capture_output=True)  # noqa: S603, S607 - our own words
