"""Running the threads and tasks of a workload until they are told to stop, and passing on what went wrong in any of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

Work = Callable[[threading.Event], None]
Job = Callable[[asyncio.Event], Coroutine[Any, Any, None]]


async def run_crew(stop: asyncio.Event, threads: Sequence[Work] = (), jobs: Sequence[Job] = ()) -> None:
    """Return when all have ended, which they do soon after `stop` is set. A failure ends the others, and is raised."""
    told = threading.Event()
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(max(1, len(threads)), thread_name_prefix="chaos") as pool:

        async def work_in_thread(work: Work) -> None:
            await loop.run_in_executor(pool, work, told)

        async def pass_on() -> None:
            await stop.wait()
            told.set()

        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(pass_on())
                for work in threads:
                    tasks.create_task(work_in_thread(work))
                for job in jobs:
                    tasks.create_task(job(stop))
        finally:
            told.set()


async def pause(stop: asyncio.Event, seconds: float) -> None:
    """Sleep, but not beyond the end."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return
