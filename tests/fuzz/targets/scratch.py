"""A folder for targets whose decoder reads a file: one for all inputs, because making one takes longer than the rest."""

from __future__ import annotations

import tempfile
from pathlib import Path

_RAM = Path("/dev/shm")
_folders: list[tempfile.TemporaryDirectory[str]] = []


def scratch() -> Path:
    """The folder, empty; in memory, where that can be had. It goes with the process."""
    if not _folders:
        _folders.append(tempfile.TemporaryDirectory(dir=_RAM if _RAM.is_dir() else None))
    folder = Path(_folders[0].name)
    for left in folder.iterdir():
        left.unlink()
    return folder
