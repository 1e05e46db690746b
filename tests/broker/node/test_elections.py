"""Which partitions a node's listener waits for when a leader was lost."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path

import pytest

from quorate.consensus.core import NodeId
from tests.support.broker_nodes import BrokerNodes
from tests.support.cluster import until


@pytest.mark.timeout(120)
def test_only_those_partitions_are_elected_whose_leader_was_lost(tmp_path: Path) -> None:
    async def main() -> None:
        async with BrokerNodes(tmp_path) as nodes:
            await nodes.create("q", partitions=6)
            await nodes.create("other")
            led: dict[int, list[tuple[str, int]]] = defaultdict(list)
            for name, index in [*(("q", index) for index in range(6)), ("other", 0)]:
                led[(await nodes.led(name, index))[0]].append((name, index))
            lost = (await nodes.led("q"))[0]
            number = next(one for one in nodes.running if one != lost)
            node, backend = nodes.running[number], nodes.backend(number)

            def views() -> list[tuple[str, int]]:
                return [
                    (queue.name, one.index) for queue in backend.queues() for one in queue.partitions if one.leader == lost
                ]

            await until(lambda: set(led[lost]) <= set(views()), "the node knows who leads")
            seen = views()
            assert backend.elections(None) == []
            # From here on without a pause, in which the lost one would be heard again.
            node.directory.connected(NodeId(lost), False, node.now())
            assert sorted(backend.elections(None)) == sorted(seen)
            assert backend.elections(["q", "unknown"]) == [one for one in seen if one[0] == "q"]
            assert all(backend.electing(*one) for one in seen)
            assert not any(backend.electing(*one) for other, those in led.items() if other != lost for one in those)
            assert not backend.electing("unknown", 0)
            assert not backend.electing("q", 6)
            queue = backend.queue("q")
            assert queue is not None
            assert [("q", one.index) for one in queue.partitions if one.leader < 0] == backend.elections(["q"])
            node.directory.connected(NodeId(lost), True, node.now())
            assert backend.elections(None) == []

    asyncio.run(main())
