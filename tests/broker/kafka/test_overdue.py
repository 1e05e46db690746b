"""Produce requests whose partitions do not answer within the time that the client gives them."""

from __future__ import annotations

import pytest

from quorate.broker.protocol.kafka.apis import Api
from quorate.broker.protocol.kafka.errors import Error
from tests.broker.kafka.lab import lab, part, produce, run
from tests.support.cluster import until


@pytest.mark.parametrize("version", [3, 9, 11])
@pytest.mark.parametrize("acks", [-1, 1])
def test_an_append_that_nobody_confirms(version: int, acks: int) -> None:
    async def main() -> None:
        async with lab(frame_ms=100) as node:
            node.backend.here.hold = True
            client = await node.client()
            answer = part(await client.ask(Api.PRODUCE, version, produce(acks=acks, timeout_ms=30)))
            assert (answer["error_code"], answer["base_offset"]) == (Error.REQUEST_TIMED_OUT, -1)
            if version >= 8:
                assert "may be appended all the same" in answer["error_message"]
            assert node.listener.budget.held == 0
            # It is appended after all, which is no second answer, and the connection goes on.
            node.backend.here.release()
            assert part(await client.ask(Api.PRODUCE, version, produce()))["base_offset"] == 1

    run(main())


def test_partitions_that_are_known_by_then_keep_their_answers() -> None:
    async def main() -> None:
        async with lab(frame_ms=100) as node:
            node.backend.here.hold = True
            value = produce(partition=1, timeout_ms=30)
            value["topic_data"][0]["partition_data"] += produce()["topic_data"][0]["partition_data"]
            value["topic_data"] += produce(topic="no")["topic_data"]
            [first, second] = (await (await node.client()).ask(Api.PRODUCE, 9, value))["responses"]
            assert [(one["index"], one["error_code"]) for one in first["partition_responses"]] == [
                (1, Error.NOT_LEADER_OR_FOLLOWER),
                (0, Error.REQUEST_TIMED_OUT),
            ]
            assert second["partition_responses"][0]["error_code"] == Error.UNKNOWN_TOPIC_OR_PARTITION

    run(main())


def test_each_request_has_its_own_time() -> None:
    """Looked at by hand. An answer that is ready early still waits for those before it."""

    async def main() -> None:
        async with lab() as node:
            node.backend.here.hold = True
            client = await node.client()
            times = [client.send(Api.PRODUCE, 9, produce(timeout_ms=ms)) for ms in (20_000, 10_000, 50_000)]
            await until(lambda: len(node.backend.here.held) == 3, "all are under way")
            [connection] = node.listener._connections
            now = node.listener.loop.time()
            connection.check(now + 9)
            assert not any(request.answer for request in connection.slots)
            connection.check(now + 11)
            assert [request.answer is not None for request in connection.slots] == [False, True, False]
            connection.check(now + 21)
            node.backend.here.release()
            codes = [part(await client.answer(Api.PRODUCE, 9, number))["error_code"] for number in times]
            assert codes == [Error.REQUEST_TIMED_OUT, Error.REQUEST_TIMED_OUT, 0]

    run(main())


def test_who_wants_no_answer_is_told_by_a_closed_connection() -> None:
    async def main() -> None:
        async with lab(frame_ms=100) as node:
            node.backend.here.hold = True
            client = await node.client()
            client.send(Api.PRODUCE, 9, produce(acks=0, timeout_ms=30))
            await node.closed_with(client, "not confirmed within the time")

    run(main())
