"""Groups whose members are different clients, and members that come back under a name of their own."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.clients.drivers.job import Job
from tests.support.broker_cluster import BrokerCluster, ClientProcess

pytestmark = pytest.mark.xdist_group("clients")

CLIENTS = ("confluent", "kafka-python", "aiokafka")
PARTITIONS = 6
COUNT = 6_000


def _member(cluster: BrokerCluster, topic: str, client: str, instance: str = "") -> Job:
    group = f"group-of-{topic}"
    return Job(client=client, do="member", bootstrap=cluster.bootstrap, topic=topic, group=group, instance=instance)


def _produce(cluster: BrokerCluster, topic: str, first: int = 0) -> None:
    job = Job(
        client="confluent",
        do="produce",
        bootstrap=cluster.bootstrap,
        topic=topic,
        partitions=PARTITIONS,
        count=COUNT,
        first=first,
    )
    assert cluster.run(job)["acked"] == COUNT


def _until_shared(members: list[ClientProcess], partitions: int = PARTITIONS) -> None:
    def shared() -> bool:
        for member in members:
            member.listen()
        return sorted(p for member in members for p in member.assigned) == list(range(partitions)) and all(
            len(member.assigned) == partitions // len(members) for member in members
        )

    members[0].until(shared, f"{len(members)} members share {partitions} partitions")


def _until_read(members: list[ClientProcess], numbers: range) -> None:
    def read() -> bool:
        for member in members:
            member.listen()
        return {number for member in members for number in member.numbers} >= set(numbers)

    members[-1].until(read, f"{len(numbers)} messages are read")


def test_different_clients_share_one_group(cluster: BrokerCluster) -> None:
    """All three know how to divide partitions in turn (`roundrobin`); whoever is the first divides for the others."""
    topic = cluster.topic(PARTITIONS)
    with ExitStack() as stack:
        members = [stack.enter_context(ClientProcess(_member(cluster, topic, client))) for client in CLIENTS]
        _until_shared(members)
        _produce(cluster, topic)
        _until_read(members, range(COUNT))
        members[0].tell()
        assert members[0].last() == {"left": True}
        _until_shared(members[1:])
        _produce(cluster, topic, first=COUNT)
        _until_read(members, range(2 * COUNT))


@pytest.mark.parametrize("client", CLIENTS)
def test_a_static_member_comes_back_to_its_work(cluster: BrokerCluster, client: str) -> None:
    """It is killed and started again within its session: nobody else is disturbed, and it goes on where it was."""
    topic = cluster.topic(PARTITIONS)
    with ExitStack() as stack:
        stays = stack.enter_context(ClientProcess(_member(cluster, topic, client, "stays")))
        _until_shared([stays])
        with ClientProcess(_member(cluster, topic, client, "comes-back")) as before:
            _until_shared([stays, before])
            _produce(cluster, topic)
            _until_read([stays, before], range(COUNT))
            had = before.assigned
        heard = len([said for said in stays.said if "assigned" in said])
        after = stack.enter_context(ClientProcess(_member(cluster, topic, client, "comes-back")))
        after.until(lambda: bool(after.assigned), "it has work again")
        assert after.assigned == had
        _produce(cluster, topic, first=COUNT)
        # What the killed member read and had not committed comes once more; nothing else does.
        _until_read([stays, after], range(COUNT, 2 * COUNT))
        assert set(before.numbers) | set(stays.numbers) | set(after.numbers) == set(range(2 * COUNT))
        assert len([said for said in stays.said if "assigned" in said]) == heard, "the other one was not disturbed"
