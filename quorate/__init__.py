"""Quorate: a replicated log and a message queue in one.

This package holds nothing of its own but its version. Its parts are the folders at the top of the repository,
linked in here one by one, and are always imported as `quorate.<part>`.
"""

from importlib.metadata import PackageNotFoundError, version

__all__ = ["__version__"]

try:
    __version__ = version("quorate")
except PackageNotFoundError:  # a checkout that was never installed; `make venv` installs it
    __version__ = "0.0.0+not.installed"
