"""Two other implementations of Kafka's messages, made to speak of values as our codec does: dicts with Kafka's names.

Both are for tests only. kio sets memory aside by lengths from the wire, so it is never given bytes that we did not encode.
"""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import io
import pkgutil
import uuid
import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from tests.broker.protocol.kafka.values import Case, Value

_MILLISECOND: Final = datetime.timedelta(milliseconds=1)
_EPOCH: Final = datetime.datetime.fromtimestamp(0, datetime.UTC)
_NO_UUID: Final = bytes(16)
_KIO_KINDS: Final = {"request": EntityType.request, "response": EntityType.response}


class KioOracle:
    """kio: generated from Kafka's schemas, with types for meanings (errors, times)."""

    name = "kio"
    tame = True

    def has(self, case: Case) -> bool:
        versions = schema_name_map[case.api.name.lower()]
        return case.version in versions and _KIO_KINDS[case.direction] in versions[case.version]

    def decode(self, case: Case, data: bytes) -> tuple[Value, bytes]:
        """The value, and the same value as the oracle encodes it."""
        schema = _kio_schema(case)
        entity, size = entity_reader(schema)(data, 0)
        assert size == len(data), "all of it was read"
        return _plain_entity(entity), _kio_bytes(entity)

    def header(self, case: Case, correlation_id: int, client_id: str | None) -> bytes:
        """The header that goes before the message."""
        header: Any = _kio_schema(case).__header_schema__
        if case.direction == "response":
            return _kio_bytes(header(correlation_id=correlation_id))
        fields = {"request_api_key": int(case.api), "request_api_version": case.version, "correlation_id": correlation_id}
        return _kio_bytes(header(**fields, client_id=client_id))


@cache
def _kio_schema(case: Case) -> Any:
    load = load_request_schema if case.direction == "request" else load_response_schema
    return load(int(case.api), case.version)


def _kio_bytes(entity: Any) -> bytes:
    with io.BytesIO() as out:
        entity_writer(type(entity))(out, entity)
        return out.getvalue()


def _plain_entity(entity: Any) -> Value:
    """An entity's fields under our names: kio leaves the unit out of the names of times."""
    return {field.name: _plain(getattr(entity, field.name)) for field in dataclasses.fields(entity)}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if dataclasses.is_dataclass(value):
        return _plain_entity(value)
    if isinstance(value, ErrorCode):
        return int(value.value)
    if isinstance(value, datetime.timedelta):
        return value // _MILLISECOND
    if isinstance(value, datetime.datetime):
        return (value - _EPOCH) // _MILLISECOND
    if isinstance(value, uuid.UUID):
        return value.bytes
    return value


class KafkaPythonOracle:
    """kafka-python: reads Kafka's own schemas at run time."""

    name = "kafka-python"
    tame = False

    def has(self, case: Case) -> bool:
        found = _kafka_python_classes().get((int(case.api), case.direction))
        return found is not None and case.version <= found.max_version

    def decode(self, case: Case, data: bytes) -> tuple[Value, bytes]:
        """The value, and the same value as the oracle encodes it."""
        message = _kafka_python_classes()[int(case.api), case.direction].decode(data, version=case.version)
        message._header = None  # decoding without a header forgets to say that there is none
        return _undressed(message.to_dict(json=False)), bytes(message.encode(version=case.version))

    def header(self, case: Case, correlation_id: int, client_id: str | None) -> bytes:
        """The header that goes before the message."""
        found = _kafka_python_classes()[int(case.api), case.direction]
        message = found(version=case.version)
        message.with_header(correlation_id, client_id)
        return bytes(message.encode_header(flexible=found.flexible_version_q(case.version)))


def _undressed(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _undressed(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_undressed(one) for one in value]
    if isinstance(value, set):  # of operations: the numbers of the bits that are set
        return sum(-(1 << bit) if bit == 31 else 1 << bit for bit in value)
    if isinstance(value, uuid.UUID):
        return value.bytes
    return bytes(value) if isinstance(value, memoryview) else value


@cache
def _kafka_python_classes() -> dict[tuple[int, str], Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # how it reads its schemas is its own affair
        import kafka.protocol
        from kafka.protocol.api_message import ApiMessage

        for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
            if ".old" not in module.name and "generate" not in module.name:
                importlib.import_module(module.name)
    return {(found.API_KEY, found.type): found for found in _below(ApiMessage)}


def _below(parent: type) -> Iterator[Any]:
    children: list[Any] = parent.__subclasses__()
    for child in children:
        if getattr(child, "_json", None) is not None and getattr(child, "_class_version", None) is None:
            yield child
        yield from _below(child)


ORACLES: Final = (KioOracle(), KafkaPythonOracle())
