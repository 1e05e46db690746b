"""Queues made, grown and deleted by administrators' clients: CreateTopics, DeleteTopics, CreatePartitions."""

from __future__ import annotations

from collections import Counter

from quorate.broker.kafka.backend import Backend, CreatedQueue, KafkaFailure, NewQueue
from quorate.broker.kafka.context import Call, Context, Message
from quorate.broker.kafka.handlers.metadata import valid_name
from quorate.broker.protocol.kafka.errors import Error

_NO_ID = bytes(16)
_LARGEST_COUNT = 100_000
"""More partitions than any cluster has: a typing error, refused before anything is built from it."""


# CreateTopics.


async def create_topics(context: Context, call: Call, message: Message) -> Message:
    """Create queues, each for itself: one that fails does not hold back the others."""
    wanted = message["topics"]
    twice = {name for name, count in Counter(topic["name"] for topic in wanted).items() if count > 1}
    results: dict[str, CreatedQueue | KafkaFailure] = {}
    new: list[NewQueue] = []
    for topic in wanted:
        try:
            if topic["name"] in twice:
                raise KafkaFailure(Error.INVALID_REQUEST, "the topic is named twice")
            new.append(_new_queue(context.backend, topic))
        except KafkaFailure as failure:
            results[topic["name"]] = failure
    if new:
        validate_only, timeout_ms = bool(message.get("validate_only")), message["timeout_ms"]
        made = await context.backend.create_queues(new, validate_only=validate_only, timeout_ms=timeout_ms)
        results.update({queue.name: result for queue, result in zip(new, made, strict=True)})
    return {"throttle_time_ms": 0, "topics": [_created(context.backend, name, result) for name, result in results.items()]}


def _new_queue(backend: Backend, topic: Message) -> NewQueue:
    name, count, replication = topic["name"], topic["num_partitions"], topic["replication_factor"]
    if not valid_name(name):
        raise KafkaFailure(Error.INVALID_TOPIC_EXCEPTION, "a name has 1 to 249 of a-z, A-Z, 0-9, '.', '_', '-'")
    if backend.queue(name) is not None:
        raise KafkaFailure(Error.TOPIC_ALREADY_EXISTS, f"topic {name} exists")
    assignments = _assignments(topic)
    if assignments is not None:
        if count != -1 or replication != -1:
            raise KafkaFailure(Error.INVALID_REQUEST, "with assignments, counts of partitions and replicas must be -1")
        count, replication = len(assignments), len(assignments[0])
    elif count != -1 and not 1 <= count <= _LARGEST_COUNT:
        raise KafkaFailure(Error.INVALID_PARTITIONS, f"{count} partitions")
    elif replication != -1 and replication < 1:
        raise KafkaFailure(Error.INVALID_REPLICATION_FACTOR, f"{replication} replicas")
    settings = {config["name"]: config["value"] for config in topic.get("configs") or ()}
    return NewQueue(name, count, replication, assignments, settings)


def _assignments(topic: Message) -> tuple[tuple[int, ...], ...] | None:
    given = topic.get("assignments")
    if not given:
        return None
    by_index = {one["partition_index"]: tuple(one["broker_ids"]) for one in given}
    if sorted(by_index) != list(range(len(given))):
        raise KafkaFailure(Error.INVALID_REPLICA_ASSIGNMENT, "partitions must be numbered from 0 on, each once")
    assignments = tuple(by_index[index] for index in range(len(given)))
    for nodes in assignments:
        if not nodes or len(set(nodes)) != len(nodes) or len(nodes) != len(assignments[0]):
            raise KafkaFailure(Error.INVALID_REPLICA_ASSIGNMENT, "each partition needs as many nodes, and each of them once")
    return assignments


def _created(backend: Backend, name: str, result: CreatedQueue | KafkaFailure) -> Message:
    if isinstance(result, KafkaFailure):
        error = {"error_code": int(result.error), "error_message": result.message or None}
        return {"name": name, "topic_id": _NO_ID, **error, "num_partitions": -1, "replication_factor": -1, "configs": None}
    queue = backend.queue(name)
    configs = [
        {"name": key, "value": value, "read_only": False, "config_source": 1, "is_sensitive": False}
        for key, value in (queue.settings.items() if queue is not None else ())
    ]
    return {
        "name": name,
        "topic_id": result.id,
        "error_code": 0,
        "error_message": None,
        "num_partitions": result.partitions,
        "replication_factor": result.replication,
        "configs": configs,
    }


# DeleteTopics.


async def delete_topics(context: Context, call: Call, message: Message) -> Message:
    """Delete queues by name, and from version 6 on also by id."""
    backend = context.backend
    wanted = message["topics"] if call.version >= 6 else [{"name": name} for name in message["topic_names"]]
    answers: list[Message] = []
    found: dict[str, Message] = {}
    for topic in wanted:
        answer, name = _to_delete(backend, topic)
        answers.append(answer)
        if name is not None and name not in found:
            found[name] = answer
    results = await backend.delete_queues(list(found), timeout_ms=message["timeout_ms"])
    for answer, failure in zip(found.values(), results, strict=True):
        if failure is not None:
            answer.update(error_code=int(failure.error), error_message=failure.message or None)
    return {"throttle_time_ms": 0, "responses": answers}


def _to_delete(backend: Backend, topic: Message) -> tuple[Message, str | None]:
    """The answer so far, and the queue's name if there is something to delete."""
    name, id = topic.get("name"), bytes(topic.get("topic_id") or _NO_ID)
    queue = backend.queue(name) if name is not None else backend.queue_by_id(id)
    answer: Message = {"name": name, "topic_id": id, "error_code": 0, "error_message": None}
    if queue is None:
        error = Error.UNKNOWN_TOPIC_OR_PARTITION if name is not None else Error.UNKNOWN_TOPIC_ID
        answer.update(error_code=int(error), error_message="there is no such topic")
        return answer, None
    answer.update(name=queue.name, topic_id=queue.id)
    if queue.internal:
        answer.update(error_code=int(Error.INVALID_REQUEST), error_message="an internal topic cannot be deleted")
        return answer, None
    return answer, queue.name


# CreatePartitions.


async def create_partitions(context: Context, call: Call, message: Message) -> Message:
    """Give queues more partitions. Fewer is not possible."""
    validate_only, timeout_ms = bool(message.get("validate_only")), message["timeout_ms"]
    twice = {name for name, count in Counter(topic["name"] for topic in message["topics"]).items() if count > 1}
    results = []
    for topic in message["topics"]:
        answer: Message = {"name": topic["name"], "error_code": 0, "error_message": None}
        results.append(answer)
        try:
            if topic["name"] in twice:
                raise KafkaFailure(Error.INVALID_REQUEST, "the topic is named twice")
            assignments = _growth(context.backend, topic)
            await context.backend.grow_queue(
                topic["name"], topic["count"], assignments, validate_only=validate_only, timeout_ms=timeout_ms
            )
        except KafkaFailure as failure:
            answer.update(error_code=int(failure.error), error_message=failure.message or None)
    return {"throttle_time_ms": 0, "results": results}


def _growth(backend: Backend, topic: Message) -> tuple[tuple[int, ...], ...] | None:
    """The nodes of the new partitions, if they are given; checks what can be checked here."""
    queue = backend.queue(topic["name"])
    if queue is None:
        raise KafkaFailure(Error.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic")
    if queue.internal:
        raise KafkaFailure(Error.INVALID_REQUEST, "an internal topic cannot be changed")
    have, count = len(queue.partitions), topic["count"]
    if not have < count <= _LARGEST_COUNT:
        raise KafkaFailure(Error.INVALID_PARTITIONS, f"there are {have} partitions, and {count} is not more")
    given = topic.get("assignments")
    if given is None:
        return None
    assignments = tuple(tuple(one["broker_ids"]) for one in given)
    if len(assignments) != count - have or not all(nodes and len(set(nodes)) == len(nodes) for nodes in assignments):
        raise KafkaFailure(Error.INVALID_REPLICA_ASSIGNMENT, f"{count - have} partitions are new, each on different nodes")
    return assignments
