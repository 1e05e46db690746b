"""The toxiproxy server: found on PATH, or built once with Go into the cache; started and stopped as a process.

`python -m quorate.chaos.toxiproxy_server` is the set-up: it builds what is missing and says what it cannot. How proxies are
used is in `links`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from quorate.chaos.cache import NotHere, built, cache_folder
from quorate.chaos.ports import free_port

VERSION = "2.12.0"
_MODULE = "github.com/Shopify/toxiproxy/v2/cmd/server"
_BUILD_S = 900
_START_S = 20.0
_STOP_S = 5.0


def find_server(*, build: bool = True) -> Path:
    """The server's binary, built if need be. Raises NotHere."""
    on_path = shutil.which("toxiproxy-server")
    if on_path is not None:
        return Path(on_path)
    cached = cache_folder() / f"toxiproxy-{VERSION}" / "toxiproxy-server"
    if cached.exists():
        return cached
    go = shutil.which("go")
    if go is None:
        raise NotHere("there is neither toxiproxy-server nor Go to build it with: install one of them")
    if not build:
        raise NotHere("toxiproxy-server is not built yet: run python -m quorate.chaos.toxiproxy_server")
    return built(cached, lambda to: _build(go, to))


def _build(go: str, to: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [go, "install", f"{_MODULE}@v{VERSION}"]
        try:
            done = subprocess.run(
                command,
                env=os.environ | {"GOBIN": folder, "GOFLAGS": "-trimpath"},
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=_BUILD_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise NotHere(f"`{' '.join(command)}` took longer than {_BUILD_S} s") from error
        if done.returncode != 0:
            raise NotHere(f"`{' '.join(command)}` failed: {done.stderr.strip()[-500:]}")
        shutil.copy2(Path(folder) / "server", to)


class ToxiproxyServer:
    """One server process. Its proxies are gone with it."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Start it, and wait until it answers. Raises NotHere, TimeoutError."""
        binary = await asyncio.to_thread(find_server)
        self.port = free_port()
        process = self._process = self._launch(binary)
        async with asyncio.timeout(_START_S):
            while not await asyncio.to_thread(self._answers):
                if process.poll() is not None:
                    raise NotHere(f"toxiproxy ended at once; its log: {self._log}")
                await asyncio.sleep(0.02)

    def _launch(self, binary: Path) -> subprocess.Popen[bytes]:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as out:
            return subprocess.Popen(
                [str(binary), "-host", "127.0.0.1", "-port", str(self.port)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                env=os.environ | {"LOG_LEVEL": "warn"},
            )

    def _answers(self) -> bool:
        with (
            suppress(OSError, urllib.error.URLError),
            urllib.request.urlopen(f"http://127.0.0.1:{self.port}/version", timeout=2) as answer,
        ):
            return bool(answer.status == 200)
        return False

    async def stop(self) -> None:
        """End the process. May be called twice."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, _STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            await asyncio.to_thread(process.wait)


def main(arguments: Sequence[str]) -> int:
    """Build what the faults need and this machine can build. A missing part is a failure only if all were asked for: without
    it the tests that need it are skipped."""
    from quorate.chaos.faults.disk_control import find_library

    missing = 0
    for what, find in (("toxiproxy server", find_server), ("library for faulty disks", find_library)):
        try:
            print(f"    {what}: {find()}")
        except NotHere as reason:
            missing += 1
            print(f"    {what}: missing, faults that need it are not tested: {reason}", file=sys.stderr)
    return 1 if missing and "--all" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
