"""Where groups go on reading: OffsetCommit, OffsetFetch, OffsetDelete."""

from __future__ import annotations

from quorate.broker.groups import Identity, OffsetToCommit
from quorate.broker.groups.offsets import commit_response, fetch_error
from quorate.broker.kafka.backend import Backend, KafkaFailure
from quorate.broker.kafka.context import Call, Context, Message
from quorate.broker.kafka.handlers.groups import Gathering, Reply
from quorate.broker.protocol.kafka.errors import Error

_SEVERAL_GROUPS_FROM = 8


def offset_commit(context: Context, call: Call, message: Message, reply: Reply) -> None:
    """OffsetCommit. Partitions that do not exist are refused; the others are committed."""
    backend, group = context.backend, message["group_id"]
    known: dict[str, list[OffsetToCommit]] = {}
    unknown: list[Message] = []
    for topic in message["topics"]:
        places, strange = _places(backend, topic)
        if places:
            known.setdefault(topic["name"], []).extend(places)
        if strange:
            unknown.append({"name": topic["name"], "partitions": strange})

    def answer(response: Message) -> None:
        reply({"topics": [*response["topics"], *unknown]})

    if not known:
        return answer({"topics": []})
    member = Identity(message["member_id"], message["generation_id_or_member_epoch"], message.get("group_instance_id"))
    try:
        backend.groups(group).commit_offsets(group, member, known, answer)
    except KafkaFailure as failure:
        answer(commit_response(known, Error(failure.error)))


def _places(backend: Backend, topic: Message) -> tuple[list[OffsetToCommit], list[Message]]:
    """What can be committed, and the answers for what cannot."""
    queue = backend.queue(topic["name"])
    count = len(queue.partitions) if queue is not None else 0
    places: list[OffsetToCommit] = []
    strange: list[Message] = []
    for one in topic["partitions"]:
        index = one["partition_index"]
        if not 0 <= index < count:
            strange.append({"partition_index": index, "error_code": int(Error.UNKNOWN_TOPIC_OR_PARTITION)})
            continue
        epoch = one.get("committed_leader_epoch", -1)
        places.append(OffsetToCommit(index, one["committed_offset"], epoch, one["committed_metadata"]))
    return places, strange


def offset_fetch(context: Context, call: Call, message: Message, reply: Reply) -> None:
    """OffsetFetch: of one group, from version 8 on of several. Without topics: all that there is."""
    if call.version < _SEVERAL_GROUPS_FROM:

        def answer(response: Message) -> None:
            reply({"error_code": response["error_code"], "topics": response["topics"]})

        return _fetch(context.backend, message, answer)
    groups = message["groups"]
    gathering = Gathering(len(groups), lambda answers: reply({"groups": list(answers)}))
    for place, group in enumerate(groups):
        _fetch(context.backend, group, gathering.slot(place))
    return None


def _fetch(backend: Backend, wanted: Message, reply: Reply) -> None:
    group, topics = wanted["group_id"], wanted["topics"]
    queues = None if topics is None else {topic["name"]: topic["partition_indexes"] for topic in topics}
    try:
        backend.groups(group).fetch_offsets(group, queues, reply)
    except KafkaFailure as failure:
        reply(fetch_error(group, queues, Error(failure.error)))


def offset_delete(context: Context, call: Call, message: Message, reply: Reply) -> None:
    """OffsetDelete."""
    group = message["group_id"]
    queues = {topic["name"]: [one["partition_index"] for one in topic["partitions"]] for topic in message["topics"]}
    try:
        context.backend.groups(group).delete_offsets(group, queues, reply)
    except KafkaFailure as failure:
        reply({"error_code": int(failure.error), "topics": []})
