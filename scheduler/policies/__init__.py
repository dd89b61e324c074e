"""Scheduling policies, one module each: order, accept or wait, victims. Pure."""
