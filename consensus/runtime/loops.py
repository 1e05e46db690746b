"""Which event loop a node runs on: uvloop where it is installed, asyncio's own elsewhere."""

from __future__ import annotations

import asyncio


def new_event_loop() -> asyncio.AbstractEventLoop:
    """For `asyncio.Runner(loop_factory=new_event_loop)`."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
