"""Disks without room, for tests: a small file system in memory where one may be mounted, a limit on file sizes anywhere."""

from __future__ import annotations

import resource
import subprocess
from abc import ABC, abstractmethod
from pathlib import Path

_CHUNK = 64 * 1024
_MOST = 30 * 1024


class SmallDisk(ABC):
    """A folder on a disk that can be filled up and emptied again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def fill(self, leave: int = 0) -> None:
        """Take all room but so many bytes away."""

    @abstractmethod
    def make_room(self) -> None:
        """Give it back."""

    def close(self) -> None:
        """Undo everything."""
        self.make_room()


class Tmpfs(SmallDisk):
    """A file system of a few MiB. Needs the right to mount; `mounted` says None where it is refused."""

    @classmethod
    def mounted(cls, folder: Path, size: int) -> Tmpfs | None:
        folder.mkdir(exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=30, check=False)
        except FileNotFoundError:
            return None
        return cls(folder) if done.returncode == 0 else None

    def fill(self, leave: int = 0) -> None:
        ballast = self.folder / "ballast"
        with ballast.open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(_CHUNK))
            except OSError:
                pass
            file.truncate(max(0, ballast.stat().st_size - leave))

    def make_room(self) -> None:
        (self.folder / "ballast").unlink(missing_ok=True)

    def close(self) -> None:
        super().close()
        subprocess.run(["umount", str(self.folder)], capture_output=True, timeout=30, check=True)


class FileSizeLimit(SmallDisk):
    """No file of this process may grow beyond a size. It works everywhere, and fails with another code than a full disk."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self, leave: int = 0) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (_MOST, self._before[1]))

    def make_room(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self._before)
