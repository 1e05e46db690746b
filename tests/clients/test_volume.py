"""Each client writes 200,000 messages, which a group of three reads while members come and go, and one reader by seeking."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.clients.drivers.job import Job
from tests.support.broker_cluster import BrokerCluster, ClientProcess

pytestmark = pytest.mark.xdist_group("clients")

CLIENTS = ("confluent", "kafka-python", "aiokafka")
COUNT = 200_000
PARTITIONS = 6


@pytest.mark.parametrize("client", CLIENTS)
def test_everything_written_is_read(cluster: BrokerCluster, client: str) -> None:
    topic = cluster.topic(PARTITIONS)

    def job(do: str, count: int = 0, first: int = 0, skip: int = 0) -> Job:
        return Job(
            client=client,
            do=do,
            bootstrap=cluster.bootstrap,
            topic=topic,
            partitions=PARTITIONS,
            count=count,
            first=first,
            skip=skip,
            group=f"group-of-{topic}" if do == "member" else "",
        )

    half = COUNT // 2
    with ExitStack() as stack:
        members = [stack.enter_context(ClientProcess(job("member")))]
        _until_shared(members)
        members += [stack.enter_context(ClientProcess(job("member"))) for _ in range(2)]
        _until_shared(members)
        assert cluster.run(job("produce", half))["acked"] == half
        _until_read(members, half)
        members[0].tell()
        assert members[0].last() == {"left": True}
        _until_shared(members[1:])
        assert cluster.run(job("produce", half, first=half))["acked"] == half
        _until_read(members, COUNT)
        # Every message once, except where a member was asked to hand partitions over between reading and committing.
        assert sum(len(member.numbers) for member in members) <= COUNT * 1.05

    skip = 1_000
    left = COUNT - skip * PARTITIONS
    numbers = cluster.run(job("read", left, skip=skip))["numbers"]
    for partition in range(PARTITIONS):
        expected = list(range(partition, COUNT, PARTITIONS))[skip:]
        assert numbers[str(partition)] == expected, f"partition {partition}"


def _until_shared(members: list[ClientProcess]) -> None:
    """Until the members have all partitions between them, each its share."""
    share = PARTITIONS // len(members)
    everything = list(range(PARTITIONS))

    def shared() -> bool:
        for member in members:
            member.listen()
        return sorted(p for m in members for p in m.assigned) == everything and all(
            len(m.assigned) == share for m in members
        )

    members[0].until(shared, f"{len(members)} members share {PARTITIONS} partitions")


def _until_read(members: list[ClientProcess], count: int) -> None:
    seen: set[int] = set()
    taken = [0] * len(members)

    def all_read() -> bool:
        for at, member in enumerate(members):
            member.listen()
            for said in member.said[taken[at] :]:
                seen.update(said.get("numbers", ()))
            taken[at] = len(member.said)
        return len(seen) == count

    members[-1].until(all_read, f"{count} messages are read", 100.0)
    assert seen == set(range(count))
