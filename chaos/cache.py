"""Where chaos keeps what it has built: the toxiproxy server and the library for faulty disks."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path


class NotHere(RuntimeError):
    """Something that a fault needs is not on this machine. The text says what to install."""


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/quorate`, or `~/.cache/quorate`."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "quorate"


def built(path: Path, build: Callable[[Path], None]) -> Path:
    """The file at `path`. If it is not there, `build` makes it under another name first, so that two builds do no harm."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}")
        try:
            build(fresh)
            fresh.replace(path)
        finally:
            fresh.unlink(missing_ok=True)
    return path
