"""What groups have committed for a queue ends with the queue, whoever coordinates them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from quorate.broker.groups import Identity, OffsetToCommit
from quorate.broker.kafka.backend import KafkaFailure
from quorate.broker.node.coordination import Coordination
from quorate.broker.node.parts import Parts
from quorate.consensus.core import GroupId
from quorate.consensus.runtime import MultiRaft
from tests.support.broker_nodes import BrokerNodes
from tests.support.cluster import until


class NeverThere(Coordination):
    """Queues are deleted at moments at which it does not serve."""

    def forget_queue(self, queue: str) -> None:
        """Nothing is done by those that do not."""


async def _coordination(nodes: BrokerNodes) -> Coordination:
    found: list[Coordination] = []

    def look() -> bool:
        found[:] = [one for node in nodes.running.values() for one in node.replicas.coordinations.values() if one.serves]
        return len(found) == 1

    await until(look, "the group has a coordinator")
    return found[0]


async def _commit(nodes: BrokerNodes, queue: str, offset: int) -> None:
    told: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
    places = {queue: [OffsetToCommit(0, offset, -1, "")]}
    (await _coordination(nodes)).commit_offsets("g", Identity(), places, told.set_result)
    assert (await told)["topics"][0]["partitions"][0]["error_code"] == 0


async def _committed(nodes: BrokerNodes, queue: str) -> int:
    told: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
    (await _coordination(nodes)).fetch_offsets("g", {queue: [0]}, told.set_result)
    return int((await told)["topics"][0]["partitions"][0]["committed_offset"])


async def _delete(nodes: BrokerNodes, queue: str) -> None:
    [failure] = await nodes.backend().delete_queues([queue], timeout_ms=20_000)
    assert not isinstance(failure, KafkaFailure), failure
    await until(lambda: all(queue not in node.state.queues for node in nodes.running.values()), "all know that it is gone")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("coordination", [Coordination, NeverThere])
def test_a_queue_that_is_made_again_begins_anew(tmp_path: Path, coordination: type[Coordination]) -> None:
    def make(runtime: MultiRaft, group: GroupId, *rest: Any) -> Coordination:
        return coordination(runtime, group, *rest)

    async def main() -> None:
        async with BrokerNodes(tmp_path, Parts(coordination=make)) as nodes:
            await nodes.create("q")
            await nodes.create("other")
            await _commit(nodes, "q", 7)
            await _commit(nodes, "other", 8)
            await _delete(nodes, "q")
            await nodes.create("q")
            assert (await _committed(nodes, "q"), await _committed(nodes, "other")) == (-1, 8)
            await _commit(nodes, "q", 3)
            assert await _committed(nodes, "q") == 3

    asyncio.run(main())
