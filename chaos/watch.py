"""Who leads which partition, looked up now and then on every node, for the timeline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from quorate.chaos.api import System
from quorate.chaos.clients.crew import pause
from quorate.chaos.clients.raw import Leader, NodeClient, Refused, Unanswered, Unreached
from quorate.chaos.history import Place, Recorder

_LOOK_S = 0.5
_ASK_S = 2.0


class LeaderWatch:
    """Notes every change. Of two nodes that disagree, the one with the later epoch is believed."""

    def __init__(self, system: System, recorder: Recorder, topics: Callable[[], Sequence[str]]) -> None:
        self._recorder = recorder
        self._topics = topics
        self._clients = [NodeClient(node.kafka, timeout_s=_ASK_S) for node in system.nodes.values()]
        self._known: dict[Place, Leader] = {}

    async def __call__(self, stop: asyncio.Event) -> None:
        try:
            while not stop.is_set():
                await asyncio.gather(*(self._look(client) for client in self._clients))
                await pause(stop, _LOOK_S)
        finally:
            for client in self._clients:
                client.close()

    async def _look(self, client: NodeClient) -> None:
        try:
            topics = (await client.metadata(self._topics())).topics
        except (Refused, Unreached, Unanswered):
            return
        for topic, partitions in topics.items():
            for number, leader in partitions.items():
                self._hear(Place(topic, number), leader)

    def _hear(self, place: Place, leader: Leader) -> None:
        known = self._known.get(place, Leader(-1, -1))
        if leader.node >= 0 and leader.epoch >= known.epoch and leader != known:
            self._known[place] = leader
            self._recorder.note("leader", topic=place.topic, partition=place.partition, node=leader.node, epoch=leader.epoch)
