"""Makes the fixtures: real producers write the records of `cases` to a fake broker, which keeps what came in.
With Java at hand, also checks that the Java client's reader understands what we write.

`PYTHONPATH=. python -m tests.broker.protocol.capture [--java DIR]`; see fixtures/README.md.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from confluent_kafka import Producer
from kafka import KafkaProducer

from quorate.broker.protocol.compression import Compression
from quorate.broker.protocol.records import Record
from quorate.consensus.batch.control import encode_control
from quorate.consensus.core import Batch, BatchKind, Offset, Term
from tests.broker.protocol.cases import CODECS, FIXTURES, RECORDS, SMALL, T0, build, written_by
from tests.support.fake_kafka import TOPIC, FakeKafka

Write = Callable[[str, Sequence[Record], str, bool], None]


def librdkafka(address: str, records: Sequence[Record], codec: str, idempotent: bool) -> None:
    settings = {"bootstrap.servers": address, "compression.type": codec, "linger.ms": 1000, "enable.idempotence": idempotent}
    producer = Producer(settings)
    for record in records:
        producer.produce(
            TOPIC, record.value, record.key, partition=0, timestamp=record.timestamp, headers=list(record.headers)
        )
    if producer.flush(30):
        raise SystemExit("librdkafka could not deliver")


def kafka_python(address: str, records: Sequence[Record], codec: str, idempotent: bool) -> None:
    producer = KafkaProducer(
        bootstrap_servers=address,
        compression_type=None if codec == "none" else codec,
        linger_ms=1000,
        enable_idempotence=idempotent,
    )
    sent = [
        producer.send(TOPIC, r.value, r.key, headers=list(r.headers), partition=0, timestamp_ms=r.timestamp) for r in records
    ]
    for future in sent:
        future.get(30)
    producer.close()


def java(classpath: Path) -> Write:
    def write(address: str, records: Sequence[Record], codec: str, idempotent: bool) -> None:
        source = FIXTURES / "JavaProducer.java"
        command = ["java", "-cp", f"{classpath}/*", str(source), address, codec, str(idempotent).lower()]
        subprocess.run(command, input="".join(map(_line, records)), text=True, check=True, timeout=120)

    return write


def _line(record: Record) -> str:
    """timestamp, key, value, then names and values of headers, in hex, with - for null."""
    fields = [record.key, record.value]
    for name, value in record.headers:
        fields += [name.encode(), value]
    return " ".join([str(record.timestamp), *("-" if field is None else f"x{field.hex()}" for field in fields)]) + "\n"


def capture(name: str, write: Write, records: Sequence[Record], codec: str, idempotent: bool = False) -> None:
    with FakeKafka() as broker:
        write(broker.address, records, codec, idempotent)
        if len(broker.produced) != 1:
            raise SystemExit(f"{name}: {len(broker.produced)} record sets instead of one; run it again on a quiet machine")
        (FIXTURES / f"{name}.bin").write_bytes(broker.produced[0])
        print(name, len(broker.produced[0]))


def check_java_reads_ours(classpath: Path) -> None:
    """Each codec, several blocks of it, with Raft's own batches in between."""
    records = [*RECORDS, Record(len(RECORDS), T0, None, b"0123456789abcdef" * 20_000)]
    noop = encode_control(Batch(Offset(0), Offset(0), Term(1), BatchKind.NOOP, b""))
    expected = "".join(map(_line, records))
    for codec in Compression:
        with tempfile.NamedTemporaryFile() as file:
            file.write(noop + build(records, codec) + noop)
            file.flush()
            command = ["java", "-cp", f"{classpath}/*", str(FIXTURES / "JavaReader.java"), file.name]
            read = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=120).stdout
        if read != expected:
            raise SystemExit(f"Java reads something else from our {codec.name.lower()} batch")
        print(f"java reads our {codec.name.lower()} batch")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--java", type=Path, help="a folder with kafka-clients and what it needs")
    arguments = parser.parse_args()
    clients: dict[str, Write] = {"librdkafka": librdkafka, "kafka-python": kafka_python}
    if arguments.java:
        check_java_reads_ours(arguments.java)
        clients["java"] = java(arguments.java)
    for client, write in clients.items():
        for codec in CODECS:
            capture(f"{client}-{codec}", write, written_by(client), codec)
        capture(f"{client}-idempotent", write, SMALL, "none", idempotent=True)


if __name__ == "__main__":
    main()
