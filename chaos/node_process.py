"""One node's process under test: started, killed, paused, and started again on the same folder."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from quorate.broker.node.local import node_environment
from quorate.broker.node.under_test import SWITCH

_STOP_S = 20.0
_TAIL_LINES = 15


class NodeProcess:
    """The process of one node, if it runs. Invariant: at most one at a time."""

    def __init__(self, file: Path, log: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        """`file` has the node's settings; its output goes to the end of `log`."""
        self._command = [sys.executable, "-m", "quorate.broker.node.under_test", str(file), SWITCH, *arguments]
        self._environment = environment
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None
        self.paused = False

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def runs(self) -> bool:
        """Whether there is a process, paused or not."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, unless it runs."""
        if self.runs:
            return
        self.paused = False
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                env={**node_environment(), **self._environment},
            )

    async def kill(self) -> None:
        """kill -9; returns when it is gone."""
        if self._process is not None:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)

    async def stop(self) -> None:
        """Ask it to hand over and stop; if it does not, kill it."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        self.resume()
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, _STOP_S)
        except subprocess.TimeoutExpired:
            await self.kill()

    def pause(self) -> None:
        """SIGSTOP: it stands still, and its connections stay open."""
        self._signal(signal.SIGSTOP)
        self.paused = True

    def resume(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)
        self.paused = False

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    def tail(self) -> str:
        """The end of its log, for complaints."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(lines[-_TAIL_LINES:])
