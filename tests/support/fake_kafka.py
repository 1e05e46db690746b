"""A Kafka broker for tests: one topic, one partition, and just enough of the protocol for real clients to write and read.

It keeps the record sets that producers send, byte for byte, and serves whatever batches it is given. Versions are low on
purpose, none of them flexible, so that the whole of it can be read in one go.
"""

from __future__ import annotations

import socketserver
import struct
import threading
from collections.abc import Callable, Sequence
from types import TracebackType

from quorate.consensus.batch.header import last_offset

TOPIC = "t"
PRODUCER_ID, PRODUCER_EPOCH = 4_000_000_123, 7

_PRODUCE, _FETCH, _LIST_OFFSETS, _METADATA, _FIND_COORDINATOR, _API_VERSIONS, _INIT_PRODUCER = 0, 1, 2, 3, 10, 18, 22
_VERSIONS = {
    _PRODUCE: (0, 7),
    _FETCH: (4, 11),
    _LIST_OFFSETS: (1, 2),
    _METADATA: (0, 4),
    _FIND_COORDINATOR: (0, 1),
    _API_VERSIONS: (0, 0),
    _INIT_PRODUCER: (0, 1),
}
_UNSUPPORTED_VERSION, _COORDINATOR_NOT_AVAILABLE = 35, 15


class Reader:
    """Takes a request apart."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self, code: str) -> int:
        value: int
        (value,) = struct.unpack_from(f">{code}", self.data, self.at)
        self.at += struct.calcsize(f">{code}")
        return value

    def take(self, length: int) -> bytes:
        self.at += max(0, length)
        return self.data[self.at - max(0, length) : self.at]

    def string(self) -> str:
        return self.take(self.number("h")).decode()


def _string(text: str | None) -> bytes:
    return struct.pack(">h", -1) if text is None else struct.pack(">h", len(text)) + text.encode()


def _blob(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


class FakeKafka:
    """Listens on a free port of loopback while it is entered. `produced` fills, `batches` is what a fetch finds."""

    def __init__(self, batches: Sequence[bytes] = ()) -> None:
        self.batches = list(batches)
        self.produced: list[bytes] = []
        self.fetch_offsets: list[int] = []
        broker = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                while len(head := self.rfile.read(4)) == 4:
                    answer = broker.answer(self.rfile.read(struct.unpack(">i", head)[0]))
                    self.wfile.write(_blob(answer))

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, request: object, client_address: object) -> None:
                """A client that hangs up in the middle is no error here."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port: int = self._server.server_address[1]
        self.address = f"127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> FakeKafka:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, request: bytes) -> bytes:
        reader = Reader(request)
        api, version, correlation = reader.number("h"), reader.number("h"), reader.number("i")
        reader.string()  # client id
        answers: dict[int, Callable[[Reader, int], bytes]] = {
            _PRODUCE: self._produce,
            _FETCH: self._fetch,
            _LIST_OFFSETS: self._list_offsets,
            _METADATA: self._metadata,
            _FIND_COORDINATOR: self._find_coordinator,
            _API_VERSIONS: self._api_versions,
            _INIT_PRODUCER: lambda reader, version: struct.pack(">ihqh", 0, 0, PRODUCER_ID, PRODUCER_EPOCH),
        }
        return struct.pack(">i", correlation) + answers[api](reader, version)

    def _api_versions(self, reader: Reader, version: int) -> bytes:
        error = _UNSUPPORTED_VERSION if version else 0
        rows = b"".join(struct.pack(">hhh", api, *span) for api, span in _VERSIONS.items())
        return struct.pack(">hi", error, len(_VERSIONS)) + rows

    def _metadata(self, reader: Reader, version: int) -> bytes:
        head = struct.pack(">i", 0) if version >= 3 else b""
        broker = struct.pack(">ii", 1, 1) + _string("127.0.0.1") + struct.pack(">i", self.port)
        if version >= 1:
            broker += _string(None)
        cluster = _string("fake") if version >= 2 else b""
        cluster += struct.pack(">i", 1) if version >= 1 else b""
        topic = struct.pack(">ih", 1, 0) + _string(TOPIC) + (b"\0" if version >= 1 else b"")
        partition = struct.pack(">ihiiiiii", 1, 0, 0, 1, 1, 1, 1, 1)
        return head + broker + cluster + topic + partition

    def _produce(self, reader: Reader, version: int) -> bytes:
        if version >= 3:
            reader.string()  # transactional id
        reader.take(2 + 4 + 4)  # acks, timeout, one topic
        topic = reader.string()
        reader.take(4 + 4)  # one partition, number 0
        self.produced.append(reader.take(reader.number("i")))
        answer = struct.pack(">i", 1) + _string(topic) + struct.pack(">iihqq", 1, 0, 0, 0, -1)
        return answer + (struct.pack(">q", 0) if version >= 5 else b"") + struct.pack(">i", 0)

    def _fetch(self, reader: Reader, version: int) -> bytes:
        reader.take(4 + 4 + 4 + 4 + 1 + (8 if version >= 7 else 0))
        topics = reader.number("i")
        head = struct.pack(">i", 0) + (struct.pack(">hi", 0, 0) if version >= 7 else b"")
        if not topics:
            return head + struct.pack(">i", 0)
        topic = reader.string()
        reader.take(4 + 4 + (4 if version >= 9 else 0))
        offset = reader.number("q")
        self.fetch_offsets.append(offset)
        found = b"".join(batch for batch in self.batches if last_offset(batch) >= offset)
        end = self._end()
        answer = head + struct.pack(">i", 1) + _string(topic) + struct.pack(">iihqq", 1, 0, 0, end, end)
        answer += struct.pack(">q", 0) if version >= 5 else b""
        answer += struct.pack(">i", 0) + (struct.pack(">i", -1) if version >= 11 else b"")
        return answer + _blob(found)

    def _list_offsets(self, reader: Reader, version: int) -> bytes:
        head = struct.pack(">i", 0) if version >= 2 else b""
        return head + struct.pack(">i", 1) + _string(TOPIC) + struct.pack(">iihqq", 1, 0, 0, -1, self._end())

    def _find_coordinator(self, reader: Reader, version: int) -> bytes:
        head = struct.pack(">i", 0) if version >= 1 else b""
        error = struct.pack(">h", _COORDINATOR_NOT_AVAILABLE) + (_string(None) if version >= 1 else b"")
        return head + error + struct.pack(">i", -1) + _string("") + struct.pack(">i", -1)

    def _end(self) -> int:
        return last_offset(self.batches[-1]) + 1 if self.batches else 0
