"""A backup as the operations page has it: the folders of a cluster that stands still, started somewhere else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.broker.node.test_local_cluster import COUNT, PATIENCE_S, ask, consume, create, free_base, produce, up

_PARTITIONS = 3


def _group(bootstrap: str) -> Consumer:
    return Consumer({"bootstrap.servers": bootstrap, "group.id": "billing", "enable.auto.commit": False})


def _commit(bootstrap: str, offsets: list[int]) -> None:
    consumer = _group(bootstrap)
    places = [TopicPartition("orders", index, offset, metadata="done") for index, offset in enumerate(offsets)]
    done = consumer.commit(offsets=places, asynchronous=False)
    assert done is not None
    assert not any(one.error for one in done)
    consumer.close()


def _committed(bootstrap: str) -> list[tuple[int, str | None]]:
    consumer = _group(bootstrap)
    found = consumer.committed([TopicPartition("orders", index) for index in range(_PARTITIONS)], timeout=PATIENCE_S)
    consumer.close()
    return [(one.offset, one.metadata) for one in found]


@pytest.mark.timeout(240)
def test_a_cluster_is_started_from_the_copies_of_all_its_folders(tmp_path: Path) -> None:
    base, offsets = free_base(3), [11, 222, 333]
    with up(tmp_path / "c", base, 3) as said:
        create(said["bootstrap"], "orders", _PARTITIONS, 3)
        produce(said["bootstrap"], "orders", _PARTITIONS)
        _commit(said["bootstrap"], offsets)
    shutil.copytree(tmp_path / "c", tmp_path / "backup")
    with up(tmp_path / "c", base, 3) as said:
        # What happens after the copies were made is not in them.
        create(said["bootstrap"], "later", 1, 3)
        produce(said["bootstrap"], "orders", _PARTITIONS)
        _commit(said["bootstrap"], [0, 0, 0])
    shutil.rmtree(tmp_path / "c")
    shutil.copytree(tmp_path / "backup", tmp_path / "restored")
    with up(tmp_path / "restored", base, 3) as said:
        bootstrap = said["bootstrap"]
        assert consume(bootstrap, "orders", _PARTITIONS) == list(range(COUNT))
        assert _committed(bootstrap) == [(offset, "done") for offset in offsets]
        names = {queue["name"] for queue in ask(said["http"], "/v1/queues")["queues"]}
        assert "orders" in names
        assert "later" not in names
        create(bootstrap, "later", 1, 3)
        produce(bootstrap, "later", 1)
        assert consume(bootstrap, "later", 1) == list(range(COUNT))
