"""Who leads a partition instead, for clients that came to the wrong broker: it spares them a request for metadata."""

from __future__ import annotations

from collections.abc import Collection

from quorate.broker.kafka.backend import Backend
from quorate.broker.protocol.kafka.errors import Error
from quorate.broker.protocol.kafka.produce import Endpoint

NOBODY = (-1, -1)
_MOVED = frozenset((int(Error.NOT_LEADER_OR_FOLLOWER), int(Error.FENCED_LEADER_EPOCH)))


def leader_if_moved(backend: Backend, name: str, index: int, error: int) -> tuple[int, int]:
    """The node that leads and its epoch, if the error says that it is another than the client believes."""
    if error not in _MOVED:
        return NOBODY
    queue = backend.queue(name)
    if queue is None or not 0 <= index < len(queue.partitions):
        return NOBODY
    view = queue.partitions[index]
    # Without a leader there is nothing to tell: the client asks for metadata until there is one.
    return (view.leader, view.epoch) if view.leader >= 0 else NOBODY


def endpoints(backend: Backend, nodes: Collection[int]) -> list[Endpoint]:
    """Where these nodes are."""
    if not nodes:
        return []
    return [Endpoint(*broker) for broker in backend.brokers() if broker.id in nodes]
