"""Where everything is: Metadata, DescribeCluster, FindCoordinator."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from functools import partial

from quorate.broker.kafka.backend import Backend, Broker, KafkaFailure, NewQueue, PartitionView, QueueView
from quorate.broker.kafka.context import NO_OPERATIONS, Call, CannotAnswer, Context, Later, Message
from quorate.broker.protocol.kafka.errors import Error

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_AUTO_CREATE_MS = 5_000
_NO_ID = bytes(16)
_FIRST_BY_ID = 12
"""The first version of Metadata in which a topic may be asked for by its id, and have no name in the answer."""
_GROUP_KEY, _TRANSACTION_KEY = 0, 1
_BROKERS = 1
_LOOK_AGAIN_S = 0.005

Found = QueueView | Message
"""A queue, or the answer that there is none."""
Look = Callable[[], Sequence[Found]]


def valid_name(name: str) -> bool:
    """Whether clients may give a queue this name."""
    return _NAME.fullmatch(name) is not None and name not in (".", "..")


# Metadata.


def metadata(context: Context, call: Call, message: Message) -> Message | Later:
    """Brokers and topics: those that are named, or all but the cluster's own, which no client can use."""
    wanted = message.get("topics")
    if wanted is None or (call.version == 0 and not wanted):
        return _elected(context, None, lambda: [queue for queue in context.backend.queues() if not queue.internal])
    if context.settings.auto_create and message.get("allow_auto_topic_creation", True):
        missing = [topic["name"] for topic in wanted if topic.get("name") and context.backend.queue(topic["name"]) is None]
        missing = [name for name in dict.fromkeys(missing) if valid_name(name)]
        if missing:
            return _create_first(context, call, wanted, missing)
    names = [name for topic in wanted if (name := _name_of(context.backend, topic)) is not None]
    return _elected(context, names, lambda: [_wanted(context.backend, topic, call.version) for topic in wanted])


async def _elected(context: Context, names: Sequence[str] | None, look: Look) -> Message:
    """The answer, once no partition in it is without a leader only because the next one is being elected."""
    await asyncio.sleep(context.settings.news_ms / 1000)
    backend, deadline = context.backend, _deadline(context)
    await _while(context, lambda: not backend.brokers(), deadline)
    # A look is dear with thousands of partitions, and many clients ask at once when a node has died: one, at the end.
    while (lost := backend.elections(names)) and context.loop.time() < deadline:
        await _while(context, partial(_electing, backend, lost), deadline)
    return _metadata(backend, look())


def _deadline(context: Context) -> float:
    """Until when elections are waited for."""
    return context.loop.time() + context.settings.election_wait_ms / 1000


async def _while(context: Context, waiting: Callable[[], bool], deadline: float) -> None:
    """Wait for news, but not for ever."""
    # Whoever learns of a leader learns it group by group, from several sides: looking now and then is simpler.
    while waiting() and context.loop.time() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(_LOOK_AGAIN_S)


def _electing(backend: Backend, lost: list[tuple[str, int]]) -> bool:
    """Whether one of these is still without a leader. Those that are not are taken out, so that none is asked for twice."""
    while lost and not backend.electing(*lost[-1]):
        lost.pop()
    return bool(lost)


async def _create_first(context: Context, call: Call, wanted: Sequence[Message], missing: Sequence[str]) -> Message:
    new = [NewQueue(name, -1, -1, None, {}) for name in missing]
    # What could not be created is still unknown, and is answered so: the client asks again.
    await context.backend.create_queues(new, validate_only=False, timeout_ms=_AUTO_CREATE_MS)
    return _metadata(context.backend, [_wanted(context.backend, topic, call.version) for topic in wanted])


def _metadata(backend: Backend, found: Sequence[Found]) -> Message:
    brokers = backend.brokers()
    if not brokers:
        # librdkafka forgets every broker when it is told of none, and may never come back (its issue 5301).
        raise CannotAnswer("it asked where everything is, and this node has not heard from its cluster yet")
    return {
        "throttle_time_ms": 0,
        "brokers": [_broker(broker, "node_id") for broker in brokers],
        "cluster_id": backend.cluster_id,
        "controller_id": backend.controller_id,
        "topics": [_topic(queue) if isinstance(queue, QueueView) else queue for queue in found],
        "cluster_authorized_operations": NO_OPERATIONS,
    }


def _name_of(backend: Backend, topic: Message) -> str | None:
    """The name of a queue that is asked for by name or id, if it is known."""
    name: str | None = topic.get("name")
    if name is None:
        queue = backend.queue_by_id(bytes(topic.get("topic_id") or _NO_ID))
        name = queue.name if queue is not None else None
    return name


def _wanted(backend: Backend, topic: Message, version: int) -> Found:
    name, id = topic.get("name"), bytes(topic.get("topic_id") or _NO_ID)
    if name is None and version < _FIRST_BY_ID:
        return _no_topic(Error.INVALID_REQUEST, "", id)
    if name is None:
        queue = backend.queue_by_id(id)
        return queue if queue is not None else _no_topic(Error.UNKNOWN_TOPIC_ID, None, id)
    queue = backend.queue(name)
    if queue is not None:
        return queue
    return _no_topic(Error.UNKNOWN_TOPIC_OR_PARTITION if valid_name(name) else Error.INVALID_TOPIC_EXCEPTION, name, _NO_ID)


def _no_topic(error: Error, name: str | None, id: bytes) -> Message:
    return {
        "error_code": int(error),
        "name": name,
        "topic_id": id,
        "is_internal": False,
        "partitions": [],
        "topic_authorized_operations": NO_OPERATIONS,
    }


def _topic(queue: QueueView) -> Message:
    return {
        "error_code": 0,
        "name": queue.name,
        "topic_id": queue.id,
        "is_internal": queue.internal,
        "partitions": [_partition(partition) for partition in queue.partitions],
        "topic_authorized_operations": NO_OPERATIONS,
    }


def _partition(partition: PartitionView) -> Message:
    return {
        "error_code": 0 if partition.leader >= 0 else int(Error.LEADER_NOT_AVAILABLE),
        "partition_index": partition.index,
        "leader_id": partition.leader,
        "leader_epoch": partition.epoch,
        "replica_nodes": list(partition.replicas),
        "isr_nodes": list(partition.isr),
        "offline_replicas": [node for node in partition.replicas if node not in partition.isr],
    }


def _broker(broker: Broker, id_field: str) -> Message:
    return {id_field: broker.id, "host": broker.host, "port": broker.port, "rack": broker.rack}


# DescribeCluster.


def describe_cluster(context: Context, call: Call, message: Message) -> Message:
    """The brokers again, for administrators' clients. Controllers are no endpoints of their own here."""
    backend = context.backend
    endpoint_type = message.get("endpoint_type", _BROKERS)
    known = endpoint_type == _BROKERS
    return {
        "throttle_time_ms": 0,
        "error_code": 0 if known else int(Error.UNSUPPORTED_ENDPOINT_TYPE),
        "error_message": None if known else "only brokers can be described",
        "endpoint_type": endpoint_type,
        "cluster_id": backend.cluster_id,
        "controller_id": backend.controller_id,
        "brokers": [_broker(broker, "broker_id") for broker in backend.brokers()] if known else [],
        "cluster_authorized_operations": NO_OPERATIONS,
    }


# FindCoordinator.


def find_coordinator(context: Context, call: Call, message: Message) -> Message | Later:
    """The node that coordinates a group; from version 4 on, several groups at once."""
    keys = message["coordinator_keys"] if call.version >= 4 else [message["key"]]
    if message.get("key_type", _GROUP_KEY) == _GROUP_KEY and any(map(context.backend.electing_coordinator, keys)):
        return _coordinators_after_election(context, call, message, keys)
    return _coordinators(context, call, message, keys)


async def _coordinators_after_election(context: Context, call: Call, message: Message, keys: Sequence[str]) -> Message:
    await _while(context, lambda: any(map(context.backend.electing_coordinator, keys)), _deadline(context))
    return _coordinators(context, call, message, keys)


def _coordinators(context: Context, call: Call, message: Message, keys: Sequence[str]) -> Message:
    key_type = message.get("key_type", _GROUP_KEY)
    found = [_coordinator(context.backend, key, key_type) for key in keys]
    if call.version < 4:
        return {"throttle_time_ms": 0, **found[0]}
    named = [{"key": key, **one} for key, one in zip(keys, found, strict=True)]
    return {"throttle_time_ms": 0, "coordinators": named}


def _coordinator(backend: Backend, key: str, key_type: int) -> Message:
    try:
        broker = _find(backend, key, key_type)
    except KafkaFailure as failure:
        nobody = {"node_id": -1, "host": "", "port": -1}
        return {"error_code": int(failure.error), "error_message": failure.message, **nobody}
    return {"error_code": 0, "error_message": None, "node_id": broker.id, "host": broker.host, "port": broker.port}


def _find(backend: Backend, key: str, key_type: int) -> Broker:
    if key_type == _TRANSACTION_KEY:
        # Clients retry "not available" for ever; this one ends the matter.
        raise KafkaFailure(Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactions are not supported")
    if key_type != _GROUP_KEY:
        raise KafkaFailure(Error.INVALID_REQUEST, f"coordinators of kind {key_type} do not exist")
    node = backend.coordinator_node(key)
    for broker in backend.brokers():
        if broker.id == node:
            return broker
    raise KafkaFailure(Error.COORDINATOR_NOT_AVAILABLE, "the group has no coordinator now")
