"""Knobs as people type them, for clients, which know no module of the scheduler."""

from scheduler.knob_assignments import AssignmentError, assigned

__all__ = ["AssignmentError", "assigned"]
