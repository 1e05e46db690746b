"""Planted bugs do break their promise, under the fault that each is for. Whether chaos notices is tested elsewhere."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from quorate.broker.node.sabotage import MODES
from quorate.chaos.faults.network import Partition
from quorate.chaos.faults.process import Kill, Power
from quorate.chaos.links import DROP, Stream, Toxic, client_key
from tests.chaos.faults.stand import PATIENCE_S, TOPIC, Stand, stand

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("toxiproxy_binary", "disk_library")]
ROUNDS = 8
"""Some need a moment that may be missed on a busy machine."""


async def values(on: Stand) -> list[str]:
    return [value for value, _ in await on.read()]


async def cut(on: Stand) -> tuple[int, dict[str, object]]:
    """The leader, and what cuts it off."""
    node = await on.leader()
    others = [other for other in on.cluster.members if other != node]
    return node, {"sides": [[node], others], "how": "drop"}


def consumer(on: Stand, group: str) -> Consumer:
    return Consumer(
        {"bootstrap.servers": on.cluster.bootstrap, "group.id": group, "enable.auto.commit": False, "log_level": 0}
    )


def test_not_without_the_switch(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "quorate.broker.node.under_test", str(tmp_path / "none.toml"), "--sabotage", "no-fsync"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "say --insecure-test-mode if that is meant" in done.stderr


def test_there_are_at_least_six() -> None:
    assert len(MODES) >= 6


def test_no_fsync(tmp_path: Path) -> None:
    async def scene() -> None:
        async with stand(tmp_path, "no-fsync") as on:
            for number in range(ROUNDS):
                await on.produce(20)
                async with Power().inflict(on.cluster, {"nodes": on.cluster.members, "seed": number}):
                    pass
                try:
                    await on.cluster.heal()
                except TimeoutError:
                    return  # `@cluster` lost what it had acknowledged: its nodes cannot agree any more
                try:
                    await on.produce()
                except RuntimeError as gone:
                    # "Local: Unknown partition", "Local: Unknown topic", or "Broker: Unknown topic or partition".
                    if ": Unknown " not in str(gone):
                        raise
                    return  # not even the queue was synced
                if set(on.acked) - set(await values(on)):
                    return
            pytest.fail("nothing that was acknowledged is lost")

    asyncio.run(scene())


def test_ack_before_commit(tmp_path: Path) -> None:
    async def scene() -> None:
        # An idempotent producer would find the hole by itself, and stop.
        async with stand(tmp_path, "ack-before-commit", idempotent=False) as on:
            for _ in range(ROUNDS):
                await on.produce()
                _, parameters = await cut(on)
                async with Partition().inflict(on.cluster, parameters):
                    await on.produce(5)
                await on.cluster.heal()
                await on.produce()
                if set(on.acked) - set(await values(on)):
                    return
            pytest.fail("nothing that was acknowledged is lost")

    asyncio.run(scene())


def test_reads_beyond_commit(tmp_path: Path) -> None:
    def see(reader: Consumer, ghost: str) -> bool:
        for _ in range(20):
            message = reader.poll(0.1)
            if message is not None and message.error() is None and message.value() == ghost.encode():
                return True
        return False

    async def scene() -> None:
        async with stand(tmp_path, "reads-beyond-commit") as on:
            await on.produce()
            reader, seen = consumer(on, "r"), list[str]()
            reader.assign([TopicPartition(TOPIC, 0, 0)])
            for number in range(ROUNDS):
                reader.poll(2.0)
                writer = Producer(
                    {"bootstrap.servers": on.cluster.bootstrap, "acks": 1, "retries": 0, "linger.ms": 0, "log_level": 0}
                )
                writer.list_topics(TOPIC, timeout=PATIENCE_S)
                writer.produce(TOPIC, f"before {number}")
                await asyncio.to_thread(writer.flush, PATIENCE_S)
                ghost = f"ghost {number}"
                _, parameters = await cut(on)
                async with Partition().inflict(on.cluster, parameters):
                    writer.produce(TOPIC, ghost)
                    if await asyncio.to_thread(see, reader, ghost):
                        seen.append(ghost)
                    # Until another leads, which has never heard of it.
                    await on.produce()
                await asyncio.to_thread(writer.flush, PATIENCE_S)
                await on.cluster.heal()
                await on.produce()
                if set(seen) - set(await values(on)):
                    reader.close()
                    return
            pytest.fail(f"nothing was seen that never happened: {seen}")

    asyncio.run(scene())


def test_offsets_in_memory(tmp_path: Path) -> None:
    async def scene() -> None:
        async with stand(tmp_path, "offsets-in-memory") as on:
            await on.produce(3)
            place = TopicPartition(TOPIC, 0, 3)
            reader = consumer(on, "g")
            await asyncio.to_thread(lambda: reader.commit(offsets=[place], asynchronous=False))
            assert (await asyncio.to_thread(reader.committed, [place], PATIENCE_S))[0].offset == 3
            found = on.admin.describe_consumer_groups(["g"])["g"]
            node = (await asyncio.to_thread(found.result, PATIENCE_S)).coordinator.id
            async with Kill().inflict(on.cluster, {"nodes": [node]}):
                assert (await asyncio.to_thread(reader.committed, [place], PATIENCE_S))[0].offset < 0
            reader.close()

    asyncio.run(scene())


def test_dedup_off(tmp_path: Path) -> None:
    async def scene() -> None:
        async with stand(tmp_path, "dedup-off") as on:
            writer = Producer(
                {"bootstrap.servers": on.cluster.bootstrap, "enable.idempotence": True, "linger.ms": 0, "log_level": 0}
            )
            writer.produce(TOPIC, "first")
            assert await asyncio.to_thread(writer.flush, PATIENCE_S) == 0
            node = await on.leader()
            syncs = on.cluster.disk(node).syncs
            # The request arrives, the answer does not, and the connection breaks: the producer has to try again.
            made = await on.cluster.links.poison([client_key(node)], Toxic(DROP.type, DROP.attributes, (Stream.DOWN,)))
            writer.produce(TOPIC, "second")
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    if on.cluster.disk(node).syncs > syncs:
                        break
                    await asyncio.sleep(0.02)
            await on.cluster.links.cure(made)
            assert await asyncio.to_thread(writer.flush, PATIENCE_S) == 0
            assert (await values(on)).count("second") > 1

    asyncio.run(scene())


def test_stale_reads(tmp_path: Path) -> None:
    async def scene() -> None:
        async with stand(tmp_path, "stale-reads") as on:
            await on.produce(3)
            place, reader = TopicPartition(TOPIC, 0, 0), consumer(on, "s")
            _, before = await asyncio.to_thread(reader.get_watermark_offsets, place, PATIENCE_S)
            node, parameters = await cut(on)
            others = [other for other in on.cluster.members if other != node]
            async with Partition().inflict(on.cluster, parameters):
                await on.until_seen(node, "suspect", others)
                await on.produce(5)
                _, end = await asyncio.to_thread(reader.get_watermark_offsets, place, PATIENCE_S)
                assert end == before, "the old leader does not know what was acknowledged since"
            reader.close()

    asyncio.run(scene())
