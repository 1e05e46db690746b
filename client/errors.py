"""Everything that the client raises. One hierarchy; each error says whether the operation may have happened.

`definite`: it has not happened and will not happen. `retriable`: the same call may succeed later. Each can be pickled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from quorate.broker.protocol.kafka.errors import Error

_MAY_HAVE_HAPPENED: Final = frozenset(
    {
        Error.UNKNOWN_SERVER_ERROR,
        Error.REQUEST_TIMED_OUT,
        Error.NETWORK_EXCEPTION,
        Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)
_RETRIABLE: Final = frozenset(
    {
        Error.LEADER_NOT_AVAILABLE,
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.REQUEST_TIMED_OUT,
        Error.BROKER_NOT_AVAILABLE,
        Error.REPLICA_NOT_AVAILABLE,
        Error.NETWORK_EXCEPTION,
        Error.COORDINATOR_LOAD_IN_PROGRESS,
        Error.COORDINATOR_NOT_AVAILABLE,
        Error.NOT_COORDINATOR,
        Error.NOT_ENOUGH_REPLICAS,
        Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Error.NOT_CONTROLLER,
        Error.KAFKA_STORAGE_ERROR,
        Error.FENCED_LEADER_EPOCH,
        Error.UNKNOWN_LEADER_EPOCH,
        Error.OFFSET_NOT_AVAILABLE,
        Error.UNSTABLE_OFFSET_COMMIT,
        Error.REASSIGNMENT_IN_PROGRESS,
        Error.THROTTLING_QUOTA_EXCEEDED,
    }
)


class QuorateError(Exception):
    """Base of all. `code` is a word for machines."""

    code: str = "failed"
    definite: bool = True
    retriable: bool = False


class BadSettings(QuorateError, ValueError):
    """A setting that does not exist, or a value that it cannot have."""

    code = "bad-settings"


class BadInput(QuorateError, ValueError):
    """A call with something that can never be carried out: nothing was sent."""

    code = "bad-input"


class ClientClosed(QuorateError):
    """The client was closed, before the call or while it was under way."""

    code = "client-closed"

    def __init__(self, why: str = "the client is closed") -> None:
        super().__init__(why)


class Unreachable(QuorateError):
    """None of the nodes that are known could be asked. `reasons`: what happened at each address."""

    code = "unreachable"
    retriable = True

    def __init__(self, bootstrap: tuple[str, ...], reasons: Mapping[str, str]) -> None:
        super().__init__(bootstrap, dict(reasons))
        self.bootstrap = bootstrap
        self.reasons = dict(reasons)

    def __str__(self) -> str:
        tried = "; ".join(f"{address}: {why}" for address, why in self.reasons.items())
        return f"no node answers (bootstrap {', '.join(self.bootstrap)}): {tried or 'nobody was asked'}"


class ConnectionLost(QuorateError):
    """The connection to a node broke, or none could be made (then `definite`). Whatever was under way on it failed so."""

    code = "connection-lost"
    retriable = True

    def __init__(self, address: str, why: str, definite: bool = False) -> None:
        super().__init__(address, why, definite)
        self.address = address
        self.why = why
        self.definite = definite

    def __str__(self) -> str:
        return f"{self.address}: {self.why}"


class TimedOut(QuorateError):
    """There was no answer in time. The operation may have happened."""

    code = "timed-out"
    definite = False
    retriable = True

    def __init__(self, where: str, what: str, after_ms: int) -> None:
        super().__init__(where, what, after_ms)
        self.where = where
        self.what = what
        self.after_ms = after_ms

    def __str__(self) -> str:
        return f"{self.where}: {self.what} was not answered within {self.after_ms} ms"


class BadAnswer(QuorateError):
    """What came is no answer to what was asked: another kind of server, or damaged data."""

    code = "bad-answer"
    definite = False

    def __init__(self, address: str, why: str) -> None:
        super().__init__(address, why)
        self.address = address
        self.why = why

    def __str__(self) -> str:
        return f"{self.address} does not answer as it should: {self.why}"


class NotSupported(QuorateError):
    """The server does not know this request, or no version of it that this client speaks."""

    code = "not-supported"

    def __init__(self, address: str, what: str) -> None:
        super().__init__(address, what)
        self.address = address
        self.what = what

    def __str__(self) -> str:
        return f"{self.address} does not support {self.what}"


class UnknownTopic(QuorateError):
    """There is no such topic, or (partition 0 or above) no such partition of it."""

    code = "unknown-topic"

    def __init__(self, topic: str, partition: int = -1) -> None:
        super().__init__(topic, partition)
        self.topic = topic
        self.partition = partition

    def __str__(self) -> str:
        if self.partition < 0:
            return f"there is no topic {self.topic!r}"
        return f"topic {self.topic!r} has no partition {self.partition}"


class OffsetOutOfRange(QuorateError):
    """The log does not hold this offset. It holds those from `log_start` to before `end`."""

    code = "offset-out-of-range"

    def __init__(self, part: tuple[str, int], offset: int, log_start: int, end: int) -> None:
        super().__init__(part, offset, log_start, end)
        self.part = part
        self.offset = offset
        self.log_start = log_start
        self.end = end

    def __str__(self) -> str:
        topic, partition = self.part
        return f"{topic}/{partition} holds offsets {self.log_start} to before {self.end}, and not {self.offset}"


class RequestFailed(QuorateError):
    """The server refused. `error` is Kafka's code; `code` is its name in small letters."""

    def __init__(self, error: int, what: str, message: str | None = None) -> None:
        super().__init__(error, what, message)
        self.error = error
        self.what = what
        self.message = message
        known = Error(error) if error in _NUMBERS else None
        self.code = known.name.lower().replace("_", "-") if known is not None else f"error-{error}"
        self.definite = error not in _MAY_HAVE_HAPPENED and known is not None
        self.retriable = error in _RETRIABLE

    def __str__(self) -> str:
        return f"{self.what}: {self.code}{f' ({self.message})' if self.message else ''}"


_NUMBERS: Final = frozenset(map(int, Error))
