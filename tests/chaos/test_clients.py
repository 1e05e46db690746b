"""The clients of a run: what they call definite, and how a crew ends."""

from __future__ import annotations

import asyncio
import threading

import pytest

from bench.peers.processes import free_base_port
from quorate.broker.protocol.kafka.errors import Error
from quorate.chaos.clients.crew import run_crew
from quorate.chaos.clients.outcome import commit_failed, name_of, produce_failed
from quorate.chaos.clients.raw import NodeClient, Unanswered, Unreached


@pytest.mark.parametrize(
    "code", [Error.REQUEST_TIMED_OUT, Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND, Error.UNKNOWN_SERVER_ERROR, -185]
)
def test_what_may_have_happened_is_not_called_definite(code: int) -> None:
    assert not produce_failed(code)
    assert not commit_failed(code)


def test_refusals_are_definite() -> None:
    assert produce_failed(Error.NOT_LEADER_OR_FOLLOWER)
    assert commit_failed(Error.NOT_COORDINATOR)
    assert not commit_failed(Error.COORDINATOR_NOT_AVAILABLE)
    assert name_of(6) == "NOT_LEADER_OR_FOLLOWER"
    assert name_of(-185) == "error -185"


def test_a_node_that_is_not_there_was_not_reached() -> None:
    async def ask() -> None:
        await NodeClient(f"127.0.0.1:{free_base_port([0])}").metadata()

    with pytest.raises(Unreached):
        asyncio.run(ask())


@pytest.mark.parametrize("answer", [b"", b"\xff\xff\xff\xff", b"\0\0\0\x04\0\0\0\x63", b"\0\0\0\x02ab"])
def test_nonsense_is_no_answer(answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer)
        writer.close()

    async def ask() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            client = NodeClient(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
            try:
                await client.metadata()
            finally:
                client.close()

    with pytest.raises(Unanswered):
        asyncio.run(ask())


def test_silence_is_no_answer() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read()
        finally:
            writer.close()

    async def ask() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            client = NodeClient(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", timeout_s=0.2)
            await client.metadata()

    with pytest.raises(Unanswered):
        asyncio.run(ask())


def test_a_crew_ends_when_it_is_told_to() -> None:
    ended: list[str] = []

    def work(stop: threading.Event) -> None:
        stop.wait(60)
        ended.append("thread")

    async def job(stop: asyncio.Event) -> None:
        await stop.wait()
        ended.append("task")

    async def main() -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(0.1, stop.set)
        await run_crew(stop, [work, work], [job])

    asyncio.run(main())
    assert sorted(ended) == ["task", "thread", "thread"]


def test_one_that_fails_ends_the_crew() -> None:
    def work(stop: threading.Event) -> None:
        assert stop.wait(60), "told to stop"

    def fail(stop: threading.Event) -> None:
        raise ValueError("broken")

    async def job(stop: asyncio.Event) -> None:
        await stop.wait()

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(run_crew(asyncio.Event(), [work, fail], [job]))
    assert caught.group_contains(ValueError, match="broken")
