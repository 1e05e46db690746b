"""Power loss at the level of files: every file is cut back to what had been synced, with some of the rest torn or zeroed.

A small C library notes each sync of the process that it is preloaded into; the cutting is done here, after its death.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")


def build(folder: Path) -> Path:
    """Compile the library. Fails clearly where there is no C compiler: without it nothing here can be tested."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise RuntimeError("the power-loss tests need a C compiler: install gcc (Debian and Ubuntu: sudo apt install gcc)")
    library = folder / "powerloss.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"], check=True, timeout=60)
    return library


def environment(library: Path, log: Path) -> dict[str, str]:
    """What the watched process has to be started with."""
    return os.environ | {"LD_PRELOAD": str(library), "POWERLOSS_LOG": str(log)}


def failing_environment(library: Path, switch: Path) -> dict[str, str]:
    """For a process whose syncs all fail while the file `switch` exists."""
    return os.environ | {"LD_PRELOAD": str(library), "POWERLOSS_FAIL": str(switch)}


def synced_sizes(log: Path) -> dict[Path, int]:
    """How much of each file was synced, by the name that it has now."""
    sizes: dict[Path, int] = {}
    for line in log.read_text().splitlines() if log.exists() else ():
        kind, first, second = line.split("\t")
        if kind == "S":
            sizes[Path(second)] = int(first)
        elif Path(first) in sizes:
            sizes[Path(second)] = sizes.pop(Path(first))
    return sizes


def lose_power(folder: Path, log: Path, rng: random.Random) -> int:
    """Cut every file below `folder` back; how many bytes are gone. The disk may have got some of the rest, or zeros."""
    sizes = synced_sizes(log)
    lost = 0
    names: dict[int, list[Path]] = {}
    for name in sorted(folder.rglob("*")):
        if name.is_file():
            names.setdefault(name.stat().st_ino, []).append(name)
    for file, *others in names.values():
        size, synced = file.stat().st_size, max(sizes.get(name, 0) for name in (file, *others))
        keep = min(size, rng.choice([synced, synced, synced + rng.randrange(0, 200)]))
        lost += size - keep
        os.truncate(file, keep)
        if keep < size and rng.random() < 0.2:
            os.truncate(file, size)  # as long as before, but what was not synced is zeros
    return lost
