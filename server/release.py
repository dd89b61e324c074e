"""Which version of the product this is."""

from importlib.metadata import version

VERSION = version("dally")
