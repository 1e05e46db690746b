"""An event loop in a thread of its own, for callers that block. It belongs to the process that made it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from quorate.client.errors import ClientClosed

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for other threads."""

    def __init__(self, name: str) -> None:
        self._pid = os.getpid()
        self._loop = _new_event_loop()
        self._lock = threading.Lock()
        self._stopped = False
        """Guarded by the lock: what is called before this is set reaches the loop before it stops."""
        # It must not keep the process alive; whoever owns it stops it at the interpreter's end at the latest.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def mine(self) -> bool:
        """False in a process that was forked: the thread is not there, and its sockets are shared with the parent."""
        return os.getpid() == self._pid

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run it there, and wait for it. An exception that ends the waiting (Ctrl-C) ends the coroutine too."""
        with self._lock:
            if self._stopped:
                coroutine.close()
                raise ClientClosed
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise ClientClosed from None
        finally:
            if not future.done():
                future.cancel()

    def stop(self, last: Coroutine[Any, Any, None]) -> None:
        """Run this, then end the loop and the thread. What still runs on it is cancelled."""
        with self._lock:
            if self._stopped:
                last.close()
                return
            self._stopped = True
            asyncio.run_coroutine_threadsafe(self._finish(last), self._loop)
        # The garbage collector may call from anywhere.
        if threading.current_thread() is not self._thread:
            self._thread.join()

    async def _finish(self, last: Coroutine[Any, Any, None]) -> None:
        try:
            await last
        finally:
            self._loop.stop()

    def _run(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            if tasks:
                loop.run_until_complete(asyncio.wait(tasks))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()


def _new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop where it is installed, asyncio's own elsewhere."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
