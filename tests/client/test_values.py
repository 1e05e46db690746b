"""Settings that are refused in words, and errors that say what may have happened and survive a pickle."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from quorate.broker.protocol.kafka.errors import Error
from quorate.client import (
    Address,
    BadAnswer,
    BadInput,
    BadSettings,
    ClientClosed,
    ClientSettings,
    ConnectionLost,
    NotSupported,
    OffsetOutOfRange,
    QuorateError,
    RequestFailed,
    TimedOut,
    TopicPartition,
    UnknownTopic,
    Unreachable,
)

PART = TopicPartition("t", 3)


def test_bootstrap_in_all_its_forms() -> None:
    two = (Address("a", 9092), Address("::1", 9093))
    assert ClientSettings(bootstrap="a:9092, [::1]:9093,a:9092").addresses == two
    assert ClientSettings(bootstrap=["a:9092", "[::1]:9093"]).addresses == two
    assert str(two[1]) == "[::1]:9093"


@pytest.mark.parametrize(
    "bootstrap", ["", " , ", "a", "a:", ":9", "a:x", "a:0", "a:65536", "::1:9092", "a:٣", 9092, [1], None]
)
def test_no_bootstrap(bootstrap: Any) -> None:
    with pytest.raises(BadSettings, match="bootstrap"):
        ClientSettings(bootstrap=bootstrap)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("request_timeout_ms", 0),
        ("retry_ms", -1),
        ("retry_ms", 1.5),
        ("max_connections", True),
        ("max_answer_bytes", 5),
        ("client_id", ""),
        ("client_id", 5),
        ("check_crcs", 1),
    ],
)
def test_values_that_cannot_be(name: str, value: Any) -> None:
    with pytest.raises(BadSettings, match=name):
        ClientSettings.of({"bootstrap": "a:1", name: value})


def test_names_that_there_are_not() -> None:
    with pytest.raises(BadSettings, match=r"'sasl\.mechanism'.*retry_ms"):
        ClientSettings.of({"bootstrap": "a:1", "sasl.mechanism": "PLAIN"})
    with pytest.raises(BadSettings, match="bootstrap is missing"):
        ClientSettings.of({"retry_ms": 5})
    assert ClientSettings.of({"bootstrap": "a:1", "retry_ms": 5}).retry_ms == 5


def test_settings_can_be_pickled() -> None:
    settings = ClientSettings(bootstrap=["a:1"], retry_ms=7)
    assert pickle.loads(pickle.dumps(settings)) == settings


ERRORS = [
    QuorateError("words"),
    BadSettings("words"),
    BadInput("words"),
    ClientClosed(),
    ClientClosed("words"),
    Unreachable(("a:1", "b:2"), {"a:1": "refused"}),
    ConnectionLost("a:1", "broke"),
    ConnectionLost("a:1", "refused", True),
    TimedOut("a:1", "FETCH", 5),
    BadAnswer("a:1", "nonsense"),
    NotSupported("a:1", "STAGE"),
    UnknownTopic("t"),
    UnknownTopic("t", 3),
    OffsetOutOfRange(PART, 5, 6, 9),
    RequestFailed(20, "an append", "words"),
    RequestFailed(9999, "an append"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: f"{error.code}")
def test_errors_can_be_pickled(error: QuorateError) -> None:
    error.definite = not error.definite  # as the attempts before the last one may have it
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert str(error)
    assert (again.code, again.definite, again.retriable) == (error.code, error.definite, error.retriable)
    assert vars(again) == vars(error)


def test_what_may_have_happened() -> None:
    assert RequestFailed(Error.NOT_LEADER_OR_FOLLOWER, "").definite
    assert RequestFailed(Error.NOT_LEADER_OR_FOLLOWER, "").retriable
    assert not RequestFailed(Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND, "").definite
    assert not RequestFailed(Error.REQUEST_TIMED_OUT, "").definite
    assert not RequestFailed(9999, "").definite
    assert RequestFailed(Error.INVALID_RECORD, "").code == "invalid-record"
    assert not RequestFailed(Error.INVALID_RECORD, "").retriable
    assert not TimedOut("a:1", "PRODUCE", 5).definite


def test_words() -> None:
    assert str(OffsetOutOfRange(PART, 5, 6, 9)) == "t/3 holds offsets 6 to before 9, and not 5"
    assert str(Unreachable(("a:1", "b:2"), {"a:1": "Connection refused"})) == (
        "no node answers (bootstrap a:1, b:2): a:1: Connection refused"
    )
