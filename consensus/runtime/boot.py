"""The boot counter of a node: a small file that rises at every start, durable before it is used."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_MAX_DIGITS: Final = 18
"""Within the 64 bits that other nodes are told, and more starts than a node can have."""


def next_boot(folder: Path) -> int:
    """Count one more start of the node that lives in `folder`. Raises ValueError if the counter cannot be read."""
    path, fresh = folder / "boot", folder / "boot.new"
    try:
        text = path.read_text("ascii")
    except FileNotFoundError:
        text = "0"
    except UnicodeDecodeError:
        text = "bytes that are no text"
    text = text.strip()
    if not text.isdecimal() or len(text) > _MAX_DIGITS:
        raise ValueError(f"{path} does not hold a number: {text[:40]!r}")
    boot = int(text) + 1
    with fresh.open("w", encoding="ascii") as file:
        file.write(f"{boot}\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return boot
