"""What each request is answered, above all when it cannot be served: Kafka's codes, in the places where clients look."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.broker.kafka.backend import KafkaFailure, QueueView
from quorate.broker.kafka.dispatch import SERVED
from quorate.broker.protocol.kafka.apis import SUPPORTED, Api
from quorate.broker.protocol.kafka.errors import Error
from tests.broker.kafka.lab import fetch, lab, part, produce, run
from tests.support.memory_backend import EPOCH, ME, OTHER, MemoryBackend

Value = dict[str, Any]
NODE = {"node_id": OTHER, "host": "127.0.0.2", "port": 9093, "rack": "rack"}


def ask(api: Api, version: int, value: Value, backend: MemoryBackend | None = None, **settings: Any) -> Value:
    """One request to a listener of its own; its answer."""
    answers: list[Value] = []

    async def main() -> None:
        async with lab(backend=backend, **settings) as node:
            answers.append(await (await node.client()).ask(api, version, value))

    run(main())
    return answers[0]


@pytest.mark.parametrize("version", range(3, 12))
def test_produce_to_the_wrong_broker(version: int) -> None:
    answer = ask(Api.PRODUCE, version, produce(partition=1))
    assert part(answer)["error_code"] == Error.NOT_LEADER_OR_FOLLOWER
    if version >= 10:
        assert part(answer)["current_leader"] == {"leader_id": OTHER, "leader_epoch": EPOCH}
        assert answer["node_endpoints"] == [NODE]


@pytest.mark.parametrize("version", range(4, 17))
def test_fetch_from_the_wrong_broker(version: int) -> None:
    """It is answered at once, however long the client would wait."""
    answer = ask(Api.FETCH, version, fetch(version, partition=1, wait_ms=60_000))
    assert part(answer)["error_code"] == Error.NOT_LEADER_OR_FOLLOWER
    if version >= 12:
        assert part(answer)["current_leader"] == {"leader_id": OTHER, "leader_epoch": EPOCH}
    if version >= 16:
        assert answer["node_endpoints"] == [NODE]


@pytest.mark.parametrize(
    ("version", "value", "code"),
    [
        (9, produce(acks=2), Error.INVALID_REQUIRED_ACKS),
        (9, produce() | {"transactional_id": "t"}, Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (2, produce(), Error.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        (9, produce(topic="no"), Error.UNKNOWN_TOPIC_OR_PARTITION),
        (9, produce(partition=-1), Error.UNKNOWN_TOPIC_OR_PARTITION),
        (
            9,
            {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": None}]}]},
            Error.INVALID_RECORD,
        ),
        (
            9,
            {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": b"short"}]}]},
            Error.CORRUPT_MESSAGE,
        ),
    ],
)
def test_produce_that_is_refused(version: int, value: Value, code: Error) -> None:
    assert part(ask(Api.PRODUCE, version, value))["error_code"] == code


@pytest.mark.parametrize("version", [8, 9, 11])
def test_a_weaker_promise_is_named(version: int) -> None:
    assert part(ask(Api.PRODUCE, version, produce()))["error_message"] is None
    weaker = part(ask(Api.PRODUCE, version, produce(acks=1)))
    assert weaker["error_code"] == 0
    assert "acks=1: on the leader's disk" in weaker["error_message"]


def test_one_partition_of_a_produce_fails_alone() -> None:
    value = produce()
    value["topic_data"][0]["partition_data"] += produce(partition=1)["topic_data"][0]["partition_data"]
    value["topic_data"] += produce(topic="no")["topic_data"]
    [first, second] = ask(Api.PRODUCE, 9, value)["responses"]
    assert [(one["index"], one["error_code"]) for one in first["partition_responses"]] == [
        (0, 0),
        (1, Error.NOT_LEADER_OR_FOLLOWER),
    ]
    assert second["partition_responses"][0]["error_code"] == Error.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("version", "value", "code"),
    [
        (12, fetch(12, offset=99, wait_ms=60_000), Error.OFFSET_OUT_OF_RANGE),
        (12, fetch(12, topic="no", wait_ms=60_000), Error.UNKNOWN_TOPIC_OR_PARTITION),
        (13, fetch(13, topic=b"n" * 16, wait_ms=60_000), Error.UNKNOWN_TOPIC_ID),
    ],
)
def test_fetch_that_is_refused(version: int, value: Value, code: Error) -> None:
    assert part(ask(Api.FETCH, version, value))["error_code"] == code


def test_fetch_sessions_are_refused() -> None:
    answer = ask(Api.FETCH, 12, fetch(12) | {"session_id": 5, "session_epoch": 3})
    assert (answer["error_code"], answer["responses"]) == (Error.FETCH_SESSION_ID_NOT_FOUND, [])


@pytest.mark.parametrize("code", [Error.FENCED_LEADER_EPOCH, Error.UNKNOWN_LEADER_EPOCH, Error.KAFKA_STORAGE_ERROR])
def test_what_a_partition_refuses_is_passed_on(code: Error) -> None:
    backend = MemoryBackend()
    backend.here.refuses = KafkaFailure(code, "no")
    assert part(ask(Api.FETCH, 12, fetch(12, wait_ms=60_000), backend))["error_code"] == code
    assert part(ask(Api.PRODUCE, 9, produce(), backend))["error_code"] == code
    wanted = {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "timestamp": -1}]}]}
    [topic] = ask(Api.LIST_OFFSETS, 7, wanted, backend)["topics"]
    assert topic["partitions"][0]["error_code"] == code
    assert topic["partitions"][0]["offset"] == -1


def wanted(name: str) -> Value:
    topic = {"topic_id": bytes(16), "name": name}
    return {"topics": [topic], "allow_auto_topic_creation": False, "include_topic_authorized_operations": False}


def test_who_asks_for_a_leader_during_an_election_is_told_the_next_one() -> None:
    backend = MemoryBackend()
    backend.election = 5
    [topic] = ask(Api.METADATA, 12, wanted("t"), backend)["topics"]
    assert [one["leader_id"] for one in topic["partitions"]] == [ME, OTHER]
    backend.election = 5
    answer = ask(Api.FIND_COORDINATOR, 3, {"key": "elected", "key_type": 0}, backend)
    assert (answer["error_code"], answer["node_id"]) == (0, OTHER)


class CountsLooks(MemoryBackend):
    """A look at a queue costs something for each of its partitions."""

    looks = 0

    def queue(self, name: str) -> QueueView | None:
        self.looks += 1
        return super().queue(name)


@pytest.mark.parametrize("election", [0, 5, 1_000_000])
def test_there_is_one_look_however_long_the_election_takes(election: int) -> None:
    backend = CountsLooks()
    backend.election = election
    ask(Api.METADATA, 12, wanted("t"), backend, election_wait_ms=50)
    assert backend.looks == 1


def test_an_election_is_not_waited_for_for_ever() -> None:
    backend = MemoryBackend()
    backend.election = 1_000_000
    [topic] = ask(Api.METADATA, 12, wanted("t"), backend, election_wait_ms=20)["topics"]
    assert [one["error_code"] for one in topic["partitions"]] == [0, Error.LEADER_NOT_AVAILABLE]
    answer = ask(Api.FIND_COORDINATOR, 3, {"key": "elected", "key_type": 0}, backend, election_wait_ms=20)
    assert answer["error_code"] == Error.COORDINATOR_NOT_AVAILABLE


def test_who_asks_a_node_that_has_just_started_is_told_once_it_knows_its_cluster() -> None:
    backend = MemoryBackend()
    backend.unacquainted = 5
    answer = ask(Api.METADATA, 12, wanted("t"), backend)
    assert [broker["node_id"] for broker in answer["brokers"]] == [ME, OTHER]


@pytest.mark.parametrize("auto_create", [False, True])
def test_nobody_is_told_that_there_are_no_brokers(auto_create: bool) -> None:
    """librdkafka believes it, forgets them all, and may never come back."""

    async def main() -> None:
        backend = MemoryBackend()
        backend.unacquainted = 1_000_000
        async with lab(backend=backend, election_wait_ms=20, auto_create=auto_create) as node:
            client = await node.client()
            client.send(Api.METADATA, 12, {"topics": [{"name": "new"}], "allow_auto_topic_creation": True})
            await node.closed_with(client, "has not heard from its cluster yet")

    run(main())


def test_metadata_of_what_is_not_there() -> None:
    wanted = [{"name": "no"}, {"name": "a/b"}, {"topic_id": b"n" * 16, "name": None}, {"name": "t"}]
    topics = ask(Api.METADATA, 12, {"topics": wanted})["topics"]
    codes = [Error.UNKNOWN_TOPIC_OR_PARTITION, Error.INVALID_TOPIC_EXCEPTION, Error.UNKNOWN_TOPIC_ID, 0]
    assert [topic["error_code"] for topic in topics] == codes


@pytest.mark.parametrize("version", [10, 11])
def test_metadata_by_id_in_a_version_that_has_the_field_but_not_the_feature(version: int) -> None:
    """The answer cannot do without a name there, so even a queue that exists is not found by its id."""
    wanted = [{"topic_id": b"n" * 16, "name": None}, {"name": "t"}]
    no, yes = ask(Api.METADATA, version, {"topics": wanted})["topics"]
    assert (no["error_code"], no["name"], no["topic_id"]) == (Error.INVALID_REQUEST, "", b"n" * 16)
    assert (yes["error_code"], yes["name"]) == (0, "t")


@pytest.mark.parametrize("version", range(13))
def test_metadata_of_everything(version: int) -> None:
    answer = ask(Api.METADATA, version, {"topics": None if version else []})
    assert [topic["name"] for topic in answer["topics"]] == ["t"]
    assert [broker["node_id"] for broker in answer["brokers"]] == [1, 2]


def test_internal_queues_are_named_only_to_who_names_them() -> None:
    """Clients that subscribe to a pattern must not be given what they cannot read."""
    wanted = {"topics": [{"name": "@own"}, {"topic_id": b"@" * 16, "name": None}]}
    for topic in ask(Api.METADATA, 12, wanted)["topics"]:
        assert (topic["error_code"], topic["name"], topic["is_internal"]) == (0, "@own", True)
        assert len(topic["partitions"]) == 1


def test_internal_queues_cannot_be_used() -> None:
    """The codes that clients of each kind understand as final."""
    refused = part(ask(Api.PRODUCE, 9, produce(topic="@own")))
    assert refused["error_code"] == Error.INVALID_TOPIC_EXCEPTION
    assert "belongs to the cluster itself" in refused["error_message"]
    for version, topic in ((12, "@own"), (13, b"@" * 16)):
        answer = part(ask(Api.FETCH, version, fetch(version, topic=topic, wait_ms=60_000)))
        assert answer["error_code"] == Error.TOPIC_AUTHORIZATION_FAILED
    wanted = {"topics": [{"name": "@own", "partitions": [{"partition_index": 0, "timestamp": -1}]}]}
    [topic] = ask(Api.LIST_OFFSETS, 7, wanted)["topics"]
    assert topic["partitions"][0]["error_code"] == Error.TOPIC_AUTHORIZATION_FAILED
    wanted = {"topics": [{"topic": "@own", "partitions": [{"partition": 0, "leader_epoch": 1}]}]}
    [topic] = ask(Api.OFFSET_FOR_LEADER_EPOCH, 4, wanted)["topics"]
    assert topic["partitions"][0]["error_code"] == Error.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize(("allowed", "code"), [(True, 0), (False, Error.UNKNOWN_TOPIC_OR_PARTITION)])
def test_queues_are_made_when_asked_for_only_where_that_is_wanted(allowed: bool, code: int) -> None:
    [topic] = ask(Api.METADATA, 12, {"topics": [{"name": "new"}]}, auto_create=allowed)["topics"]
    assert topic["error_code"] == code


def test_coordinators() -> None:
    found = ask(Api.FIND_COORDINATOR, 4, {"coordinator_keys": ["elsewhere", "nowhere"]})["coordinators"]
    assert [(one["node_id"], one["error_code"]) for one in found] == [(OTHER, 0), (-1, Error.COORDINATOR_NOT_AVAILABLE)]
    answer = ask(Api.FIND_COORDINATOR, 1, {"key": "x", "key_type": 1})
    assert answer["error_code"] == Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


GROUPS: list[tuple[Api, Value]] = [
    (Api.JOIN_GROUP, {"group_id": "g"}),
    (Api.SYNC_GROUP, {"group_id": "g"}),
    (Api.HEARTBEAT, {"group_id": "g"}),
    (Api.LEAVE_GROUP, {"group_id": "g"}),
    (Api.OFFSET_DELETE, {"group_id": "g"}),
    (Api.DESCRIBE_GROUPS, {"groups": ["g"]}),
    (Api.DELETE_GROUPS, {"groups_names": ["g"]}),
    (
        Api.OFFSET_COMMIT,
        {"group_id": "g", "topics": [{"name": "t", "partitions": [{"partition_index": 0, "committed_metadata": ""}]}]},
    ),
    (Api.OFFSET_FETCH, {"group_id": "g", "groups": [{"group_id": "g"}]}),
]


@pytest.mark.parametrize(
    ("api", "version", "value"),
    [(api, version, value) for api, value in GROUPS for version in range(SUPPORTED[api][0], SUPPORTED[api][1] + 1)],
)
def test_groups_that_are_coordinated_elsewhere(api: Api, version: int, value: Value) -> None:
    answer = ask(api, version, value)
    if api == Api.OFFSET_FETCH and version == 1:
        assert answer["topics"] == [], "this version has no place for it but partitions"
    else:
        assert codes(answer) - {0} == {Error.NOT_COORDINATOR}


def codes(value: Any) -> set[int]:
    """All error codes in an answer."""
    if isinstance(value, list):
        return set().union(*map(codes, value))
    if not isinstance(value, dict):
        return set()
    return set().union(*(({one} if name == "error_code" else codes(one)) for name, one in value.items()))


def test_administration_that_is_refused() -> None:
    topics = [{"name": "t", "num_partitions": 1, "replication_factor": 1}, {"name": "..", "num_partitions": 1}]
    found = ask(Api.CREATE_TOPICS, 7, {"topics": topics})["topics"]
    assert {one["name"]: one["error_code"] for one in found} == {
        "t": Error.TOPIC_ALREADY_EXISTS,
        "..": Error.INVALID_TOPIC_EXCEPTION,
    }
    [one] = ask(Api.DELETE_TOPICS, 6, {"topics": [{"name": "no"}]})["responses"]
    assert one["error_code"] == Error.UNKNOWN_TOPIC_OR_PARTITION
    [one] = ask(Api.CREATE_PARTITIONS, 3, {"topics": [{"name": "t", "count": 2, "assignments": None}]})["results"]
    assert one["error_code"] == Error.INVALID_PARTITIONS
    [one] = ask(Api.DESCRIBE_CONFIGS, 4, {"resources": [{"resource_type": 9, "resource_name": "x"}]})["results"]
    assert one["error_code"] == Error.INVALID_REQUEST
    changes = [{"name": "retention.ms", "config_operation": 0, "value": "1"}]
    resources = [{"resource_type": 2, "resource_name": "t", "configs": changes}]
    [one] = ask(Api.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": resources})["responses"]
    assert (one["error_code"], one["error_message"]) == (Error.INVALID_CONFIG, "retention.ms is fixed")
    assert ask(Api.DESCRIBE_CLUSTER, 1, {"endpoint_type": 2})["error_code"] == Error.UNSUPPORTED_ENDPOINT_TYPE


def test_secrets_are_not_described() -> None:
    resources = [{"resource_type": 2, "resource_name": "t", "configuration_keys": None}]
    [one] = ask(Api.DESCRIBE_CONFIGS, 4, {"resources": resources, "include_synonyms": True})["results"]
    [_, secret] = one["configs"]
    assert secret["value"] is None
    assert [same["value"] for same in secret["synonyms"]] == [None]


def test_producer_ids() -> None:
    assert ask(Api.INIT_PRODUCER_ID, 4, {"transactional_id": None})["producer_id"] == 77
    answer = ask(Api.INIT_PRODUCER_ID, 4, {"transactional_id": "t"})
    assert answer["error_code"] == Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


@pytest.mark.parametrize("version", range(5))
def test_what_is_advertised_is_served(version: int) -> None:
    keys = ask(Api.API_VERSIONS, version, {})["api_keys"]
    assert {one["api_key"]: (one["min_version"], one["max_version"]) for one in keys} == SERVED


@pytest.mark.parametrize(
    ("api", "version"), [(Api(api), version) for api, (first, last) in SERVED.items() for version in range(first, last + 1)]
)
def test_every_version_of_everything_is_answered(api: Api, version: int) -> None:
    """With what a message holds when nothing is said: no handler counts on a field that its version lacks."""
    ask(api, version, {"acks": -1} if api == Api.PRODUCE else {})
