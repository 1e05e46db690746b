"""The handle on a faulty disk: builds the library that is preloaded into a node (disk.c), switches its faults, and takes the
power away: every file is cut back to what was synced, with some of the rest torn or zeroed."""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final

from quorate.chaos.cache import NotHere, built, cache_folder

SOURCE: Final = Path(__file__).with_name("disk.c")
_HEAD_BYTES: Final = 4096
_SLOTS: Final = 1 << 16
_SLOT: Final = Struct("<Qq")
_NUMBER: Final = Struct("<q")
_FIELDS: Final = {name: 8 * place for place, name in enumerate(("slow", "sync", "write", "syncs", "refused", "overflow"))}
_TORN_BYTES: Final = 200


def find_library() -> Path:
    """The library, compiled if it is not there yet. Raises NotHere."""
    source = SOURCE.read_bytes()
    path = cache_folder() / f"disk-{hashlib.sha256(source).hexdigest()[:16]}.so"
    return built(path, _compile)


def _compile(to: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise NotHere("faulty disks need a C compiler: install gcc (Debian and Ubuntu: sudo apt install gcc)")
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(to), str(SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise NotHere(f"`{' '.join(command)}` failed: {done.stderr.strip()[-500:]}")


class Disk:
    """The disk below one folder, as the process sees it that was started with `environment`."""

    def __init__(self, folder: Path, control: Path) -> None:
        """`folder` is what the faults are about, `control` the file that says which: it must lie elsewhere."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder.resolve()
        self._control = control
        fd = os.open(control, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.ftruncate(fd, _HEAD_BYTES + _SLOTS * _SLOT.size)
            self._map = mmap.mmap(fd, _HEAD_BYTES + _SLOTS * _SLOT.size)
        finally:
            os.close(fd)

    def environment(self, library: Path) -> dict[str, str]:
        """What the process needs in its environment."""
        return {
            "LD_PRELOAD": str(library),
            "QUORATE_DISK_CONTROL": str(self._control),
            "QUORATE_DISK_ROOT": str(self.folder),
        }

    def close(self) -> None:
        self._map.close()

    # Faults. Each holds until it is ended; all at once: `heal`.

    def slow(self, sync_ms: int) -> None:
        """Every sync takes at least so long; 0 ends it."""
        self._set("slow", sync_ms)

    def fail_syncs(self, code: int = errno.EIO) -> None:
        """Every sync fails with an error; 0 ends it."""
        self._set("sync", code)

    def fail_writes(self, code: int = errno.EIO) -> None:
        """Every write fails with an error; 0 ends it."""
        self._set("write", code)

    def fill(self) -> None:
        """No write finds room, and no room is said to be free."""
        self.fail_writes(errno.ENOSPC)

    def heal(self) -> None:
        """The disk is well again."""
        self.slow(0)
        self.fail_syncs(0)
        self.fail_writes(0)

    @property
    def syncs(self) -> int:
        """How many syncs were asked for."""
        return self._get("syncs")

    @property
    def refused(self) -> int:
        """How many calls were made to fail."""
        return self._get("refused")

    # Power.

    def settle(self) -> None:
        """What is on the disk now counts as synced, though the process that wrote it may not have asked for it: time has
        passed. Call it while the process is down. Forgets files that are gone."""
        sizes = {file: file.stat().st_size for file in self._files()}
        self._map[_HEAD_BYTES:] = bytes(len(self._map) - _HEAD_BYTES)
        self._set("overflow", 0)
        for file, size in sizes.items():
            self._remember(file, size)

    def lose_power(self, rng: random.Random) -> int:
        """Cut every file back to what was synced; how many bytes are gone. Only while the process is down.

        The disk may have got some of the rest, or zeros in its place.
        """
        if self._get("overflow"):
            raise RuntimeError("more files than the table of synced ones can hold: a power loss would lose too much")
        lost = 0
        names: dict[int, list[Path]] = {}
        for file in sorted(self._files()):
            names.setdefault(file.stat().st_ino, []).append(file)
        for same in names.values():
            file, size = same[0], same[0].stat().st_size
            synced = max(self.synced(name) for name in same)
            keep = min(size, rng.choice([synced, synced, synced + rng.randrange(0, _TORN_BYTES)]))
            lost += size - keep
            os.truncate(file, keep)
            if keep < size and rng.random() < 0.2:
                os.truncate(file, size)  # as long as before, but what was not synced is zeros
        self.settle()
        return lost

    def synced(self, file: Path) -> int:
        """How many bytes of a file have reached the disk for sure."""
        at = self._find(_hash(file))
        return _SLOT.unpack_from(self._map, at)[1] if at is not None else 0

    def _files(self) -> Iterator[Path]:
        return (file for file in self.folder.rglob("*") if file.is_file())

    def _remember(self, file: Path, size: int) -> None:
        key = _hash(file)
        for tried in range(_SLOTS):
            at = _HEAD_BYTES + (key + tried) % _SLOTS * _SLOT.size
            if _SLOT.unpack_from(self._map, at)[0] in (0, key):
                _SLOT.pack_into(self._map, at, key, size)
                return

    def _find(self, key: int) -> int | None:
        for tried in range(_SLOTS):
            at = _HEAD_BYTES + (key + tried) % _SLOTS * _SLOT.size
            found = _SLOT.unpack_from(self._map, at)[0]
            if found == key:
                return at
            if found == 0:
                return None
        return None

    def _set(self, name: str, value: int) -> None:
        _NUMBER.pack_into(self._map, _FIELDS[name], value)

    def _get(self, name: str) -> int:
        return int(_NUMBER.unpack_from(self._map, _FIELDS[name])[0])


def _hash(file: Path) -> int:
    """FNV-1a of the path, as disk.c has it."""
    value = 14695981039346656037
    for byte in os.fsencode(file):
        value = ((value ^ byte) * 1099511628211) & 0xFFFF_FFFF_FFFF_FFFF
    return value or 1
