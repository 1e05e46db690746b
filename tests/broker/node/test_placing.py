"""Where replicas and leaders are, as real processes: over racks, and back where they belong after a failure."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from tests.support.node_processes import Nodes, until

pytestmark = pytest.mark.timeout(180)


def test_replicas_are_spread_over_racks_and_leaders_come_back(tmp_path: Path) -> None:
    with Nodes(tmp_path, founders=4, racks={1: "a", 2: "a", 3: "b", 4: "c"}) as nodes:
        nodes.create("orders", 6)
        assert {number: one["rack"] for number, one in nodes.nodes().items()} == {1: "a", 2: "a", 3: "b", 4: "c"}
        for one in nodes.partitions():
            assert len(set(one["replicas"]) & {1, 2}) == 1, "one of the two in rack a"
        admin = AdminClient({"bootstrap.servers": nodes.bootstrap})
        described = admin.describe_cluster().result(30)
        assert {node.id: node.rack for node in described.nodes} == {1: "a", 2: "a", 3: "b", 4: "c"}

        def at_home() -> bool:
            return all(one["leader"] == one["replicas"][0] for one in nodes.partitions())

        until(at_home, "every partition is led by its first replica")
        assert any(one["replicas"][0] == 3 for one in nodes.partitions())
        # The metadata's own leader is no partition's.
        led = sum(one["leaders"] for one in nodes.nodes().values())
        assert led == len(nodes.partitions())
        nodes.kill(3)
        until(lambda: all(one["leader"] not in (None, 3) for one in nodes.partitions()), "others lead")
        assert not at_home()
        nodes.start(3)
        nodes.await_ready(3)
        until(at_home, "node 3 leads again what it led before")


def test_a_queue_can_be_made_as_soon_as_a_node_is_back(tmp_path: Path) -> None:
    """The node that is asked may not have heard of it again: it used to answer that there are too few nodes."""
    with Nodes(tmp_path, suspect_after_ms=300) as nodes:
        for number in range(3):
            nodes.kill(3)
            until(lambda: nodes.nodes()[3]["state"] == "suspect", "node 3 is missed")
            nodes.start(3)
            nodes.await_ready(3)
            nodes.create(f"orders-{number}", 2)


def test_a_queue_that_needs_a_dead_node_is_refused(tmp_path: Path) -> None:
    with Nodes(tmp_path, suspect_after_ms=300) as nodes:
        nodes.kill(3)
        until(lambda: nodes.nodes()[3]["state"] == "suspect", "node 3 is missed")
        with pytest.raises(KafkaException) as refused:
            nodes.create("orders", 2)
        assert refused.value.args[0].code() == KafkaError.INVALID_REPLICATION_FACTOR
