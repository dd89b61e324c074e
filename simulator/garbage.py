"""How often a process that only simulates looks for garbage in circles."""

import gc

NEW_OBJECTS = 100_000
"""Made and kept since the last look: the records of a run are no circles, and there are many."""


def collect_seldom() -> None:
    """For processes of their own, not for a service that also answers forecasts."""
    if not gc.get_freeze_count():
        gc.freeze()
    gc.set_threshold(NEW_OBJECTS, 50, 50)
