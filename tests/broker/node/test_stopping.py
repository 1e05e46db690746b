"""A node that is told to stop hands over what it leads before it turns clients away: nobody waits for it."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, KafkaError, Message, Producer

from bench.peers.processes import await_condition
from bench.peers.quorate_up import QuorateUp
from tests.support.broker_cluster import BrokerCluster

_PATIENCE_S = 60.0
_SOON_S = 3.0
"""Far below the time that a request under way was once waited for, with room for a busy machine."""


class Load:
    """A producer that never rests, and when its messages were acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
        self._topic = topic
        self.sent = 0
        self.at: list[float] = []

    def _told(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        self.at.append(time.monotonic())

    def step(self) -> None:
        if self.sent - len(self.at) < 100:
            self._producer.produce(self._topic, str(self.sent).encode(), partition=0, on_delivery=self._told)
            self.sent += 1
        self._producer.poll(0.002)

    def progress(self, by: int = 200) -> None:
        goal, deadline = len(self.at) + by, time.monotonic() + _PATIENCE_S
        while len(self.at) < goal:
            assert time.monotonic() < deadline, "nothing is acknowledged any more"
            self.step()

    def end(self) -> None:
        assert self._producer.flush(_PATIENCE_S) == 0
        assert len(self.at) == self.sent

    def gap(self, since: float) -> float:
        """The longest time without an acknowledgement."""
        at = [since, *(one for one in self.at if one >= since)]
        return max(later - earlier for earlier, later in itertools.pairwise(at))


def _member(bootstrap: str, group: str, topic: str) -> Consumer:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    # With these two it joins anew only when it is polled.
    consumer.subscribe([topic], on_assign=lambda *_: None, on_revoke=lambda *_: None)
    return consumer


@contextmanager
def _pending_join(cluster: BrokerCluster, group: str, topic: str) -> Iterator[None]:
    """A group one member of which waits for another, which is alive and does not come."""
    members = [_member(cluster.bootstrap, group, topic)]
    try:
        deadline = time.monotonic() + _PATIENCE_S
        while not members[0].assignment():
            assert time.monotonic() < deadline, "the first member has nothing assigned"
            members[0].poll(0.1)
        members.append(_member(cluster.bootstrap, group, topic))
        deadline = time.monotonic() + _PATIENCE_S
        while _state(cluster, group) is not ConsumerGroupState.PREPARING_REBALANCING:
            assert time.monotonic() < deadline, "the second member does not join"
            members[1].poll(0.1)
        yield
    finally:
        for member in reversed(members):
            member.close()


def _state(cluster: BrokerCluster, group: str) -> ConsumerGroupState:
    state = cluster.admin.describe_consumer_groups([group], request_timeout=10)[group].result(20).state
    assert isinstance(state, ConsumerGroupState)
    return state


@pytest.mark.timeout(240)
def test_a_leader_that_stops_under_load_keeps_nobody_waiting(tmp_path: Path) -> None:
    peer = QuorateUp(tmp_path)
    try:
        cluster = BrokerCluster(peer)
        topic = cluster.topic()
        node = cluster.leader(topic)
        group = next(name for name in (f"g{number}" for number in range(100)) if cluster.coordinator(name) == node)
        load = Load(cluster.bootstrap, topic)
        with _pending_join(cluster, group, topic):
            load.progress()
            assert cluster.leader(topic) == node
            assert cluster.coordinator(group) == node
            pid, told = peer.pids[node], time.monotonic()
            os.kill(pid, signal.SIGTERM)
            while node in peer.pids:
                assert time.monotonic() - told < _PATIENCE_S, "the node does not stop"
                load.step()
            ended = time.monotonic()
            load.progress()
            load.end()
            print(f"the process ended after {ended - told:.2f} s, the longest gap was {load.gap(told):.2f} s")
            assert ended - told < _SOON_S
            assert load.gap(told) < _SOON_S
            await_condition(lambda: cluster.coordinator(group) != node, "another node coordinates", _PATIENCE_S)
    finally:
        peer.stop()
