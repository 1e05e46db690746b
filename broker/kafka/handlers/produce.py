"""Produce: the hot path in. No task, no future, no copy of the records (but see `_own`): decode, append, and answer from the
callback."""

from __future__ import annotations

from quorate.broker.kafka.backend import Appended, KafkaFailure
from quorate.broker.kafka.context import Context
from quorate.broker.kafka.handlers.leaders import endpoints, leader_if_moved
from quorate.broker.kafka.request import Request
from quorate.broker.protocol.kafka.errors import Error
from quorate.broker.protocol.kafka.produce import ProduceRequest, decode_produce, encode_produce_response

_ACKS = (-1, 0, 1)
_OLDEST_FORMAT = 3
"""Versions before this carry record formats that are not kept any more."""
_LEADER_ONLY = "acks=1: on the leader's disk, and not known to be on a majority"
"""A weaker promise is named in the answer, where there is one (not with acks=0) that has a text (from version 8 on)."""

_LATE = "not confirmed within the time that the request allows; it may be appended all the same"
_NOTHING = memoryview(b"")

Result = tuple[int, int, int, int, int, str | None, int, int]
"""Index, error, base offset, append time, log start, message, leader, epoch."""


def produce(context: Context, request: Request) -> None:
    """Append what is there for each partition; the answer leaves when the last one is known."""
    message = decode_produce(request.version, request.body)
    # From here on a batch keeps what it lies in, and nothing else does: the job lives until the last partition has answered.
    request.body = _NOTHING
    job = _Job(context, request, message)
    refusal = _refusal(request.version, message)
    partition = context.backend.partition
    for name, batches in message.topics:
        for index, data in batches:
            place = _Place(job, name, index)
            try:
                if refusal is not None:
                    raise refusal
                if not data:
                    raise KafkaFailure(Error.INVALID_RECORD, "there must be exactly one batch")
                partition(name, index).append(_own(data), message.acks, place.done)
            except KafkaFailure as failure:
                place.done(failure)
    job.settle(1)
    if request.answer is None:
        # Looked at with all others now and then: a timer of its own would cost each request more, and hardly any needs it.
        request.due = context.loop.time() + message.timeout_ms / 1000
        request.overdue = job.expire


def _own(batch: memoryview) -> memoryview | bytearray:
    """A batch that keeps no more than twice its size in memory: a copy where it is a small part of a request. It may stay
    for long after its request, and what counts the bytes of a log in memory sees the batch alone."""
    return batch if 2 * len(batch) >= memoryview(batch.obj).nbytes else bytearray(batch)


def _refusal(version: int, message: ProduceRequest) -> KafkaFailure | None:
    """Why nothing of a request can be taken."""
    if message.acks not in _ACKS:
        return KafkaFailure(Error.INVALID_REQUIRED_ACKS, f"acks {message.acks} is none of -1, 0, 1")
    if message.transactional_id is not None:
        return KafkaFailure(Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactions are not supported")
    if version < _OLDEST_FORMAT:
        return KafkaFailure(Error.UNSUPPORTED_FOR_MESSAGE_FORMAT, "only record batches of version 2 are kept")
    return None


class _Job:
    """A request whose partitions answer one by one. One count is held by `produce` itself, until it has begun them all."""

    __slots__ = ("_answers", "_context", "_expired", "_failed", "_moved", "_promise", "_request", "_silent", "_waiting")

    def __init__(self, context: Context, request: Request, message: ProduceRequest) -> None:
        self._context = context
        self._request = request
        self._silent = message.acks == 0
        self._promise = _LEADER_ONLY if message.acks == 1 else None
        self._failed: KafkaFailure | None = None
        self._moved: set[int] = set()
        self._waiting = 1
        self._expired = False
        self._answers: dict[str, list[Result | int]] = {}
        """By queue, in the order of the request; the partition's number where nothing is known yet."""

    def add(self, name: str, index: int) -> int:
        """One more partition to wait for; its place in the answer."""
        self._waiting += 1
        places = self._answers.get(name)
        if places is None:
            self._answers[name] = [index]
            return 0
        places.append(index)
        return len(places) - 1

    def put(self, name: str, at: int, index: int, outcome: Appended | KafkaFailure) -> None:
        """A partition's outcome. It counts for nothing once the time is over."""
        if self._expired:
            return
        if isinstance(outcome, KafkaFailure):
            self._failed = outcome
            result = self._failure(name, index, outcome)
        else:
            result = (index, 0, outcome.base_offset, outcome.append_time, outcome.log_start, self._promise, -1, -1)
        self._answers[name][at] = result
        self.settle(1)

    def settle(self, count: int) -> None:
        """So many fewer to wait for; answer after the last."""
        self._waiting -= count
        if self._waiting:
            return
        request = self._request
        request.overdue = None
        if not self._silent:
            topics = [
                (name, [place for place in places if not isinstance(place, int)]) for name, places in self._answers.items()
            ]
            nodes = endpoints(self._context.backend, self._moved)
            request.send((encode_produce_response(request.version, request.correlation_id, topics, 0, nodes),))
        elif self._failed is None:
            request.no_answer()
        else:
            # As in Kafka: to a client that wants no answers, a closed connection says that it must look again.
            request.origin.fail(f"a produce without acknowledgement failed: {self._failed}")

    def expire(self) -> None:
        """The client's time is over: say so of each partition that is not known. It may be appended all the same."""
        late = KafkaFailure(Error.REQUEST_TIMED_OUT, _LATE, definite=False)
        for name, places in self._answers.items():
            for at, place in enumerate(places):
                if isinstance(place, int):
                    places[at] = self._failure(name, place, late)
        self._failed, self._expired = late, True
        self.settle(self._waiting)

    def _failure(self, name: str, index: int, failure: KafkaFailure) -> Result:
        leader, epoch = leader_if_moved(self._context.backend, name, index, failure.error)
        if leader >= 0:
            self._moved.add(leader)
        return (index, int(failure.error), -1, -1, -1, failure.message or None, leader, epoch)


class _Place:
    """One partition of a request."""

    __slots__ = ("_at", "_index", "_job", "_name")

    def __init__(self, job: _Job, name: str, index: int) -> None:
        self._job = job
        self._name = name
        self._index = index
        self._at = job.add(name, index)

    def done(self, outcome: Appended | KafkaFailure) -> None:
        """The partition's callback."""
        self._job.put(self._name, self._at, self._index, outcome)
