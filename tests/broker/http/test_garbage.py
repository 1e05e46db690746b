"""What is no HTTP is refused with one line in the log, and hurts nobody else."""

from __future__ import annotations

import asyncio
import logging
from typing import cast

import aiohttp
import pytest

from quorate.broker.http.admin import Admin
from quorate.broker.http.server import HttpListener

GARBAGE = [b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, bytes(64) + b"\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\r\n\r\n"]


def test_garbage_gets_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        listener = HttpListener(cast(Admin, None))
        host, port = await listener.start("127.0.0.1", 0)
        try:
            for garbage in GARBAGE:
                reader, writer = await asyncio.open_connection(host, port)
                writer.write(garbage)
                assert b"400" in await asyncio.wait_for(reader.read(1_000), 20)
                writer.close()
                await writer.wait_closed()
            async with aiohttp.ClientSession() as session, session.get(f"http://{host}:{port}/healthz") as answer:
                assert answer.status == 200
        finally:
            await listener.close()

    with caplog.at_level(logging.INFO):
        asyncio.run(main())
    assert [record.levelno for record in caplog.records] == [logging.WARNING], "one for all that one address sends"
    assert "no HTTP" in caplog.text
    assert "Traceback" not in caplog.text
