"""What a partition says in Kafka's terms fits into Kafka's answers."""

from __future__ import annotations

from quorate.broker.partition.values import KafkaFailure
from quorate.broker.protocol.kafka.apis import Api
from quorate.broker.protocol.kafka.codec import encode_response_frame
from quorate.broker.protocol.kafka.errors import Error


def test_a_refusal_that_quotes_the_longest_name_can_be_told() -> None:
    failure = KafkaFailure(Error.INVALID_CONFIG, f"there is no setting {chr(7) * 32_767!r}")
    told = {"error_code": int(failure.error), "error_message": failure.message, "resource_type": 2, "resource_name": "q"}
    frame = encode_response_frame(Api.INCREMENTAL_ALTER_CONFIGS, 1, 1, {"throttle_time_ms": 0, "responses": [told]})
    assert len(frame) < 2_000
