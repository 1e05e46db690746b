"""Requests of our own, which Kafka does not have: closed time, and records that are staged now and committed later.

What they mean: docs/protocol-extensions.md.
"""

from __future__ import annotations

from typing import Final

TABLES: Final = """
ClosedTime request
    topics []
        name string
        partitions []int32
    at_least int64 default=-1
    max_wait_ms int32
ClosedTime response
    throttle_time_ms int32
    topics []
        name string
        partitions []
            index int32
            error_code int16
            error_message string? default=null
            closed_time int64 default=-1
            end_offset int64 default=-1

Stage request
    timeout_ms int32
    topics []
        name string
        partitions []
            index int32
            records records?
Stage response
    throttle_time_ms int32
    topics []
        name string
        partitions []
            index int32
            error_code int16
            error_message string? default=null
            base_offset int64 default=-1

CommitStaged request
    application_id string
    batch_id int64
    timeout_ms int32
    stages []
        producer_id int64
        parts []
            topic string
            partition int32
            batches int32
            records int64
CommitStaged response
    throttle_time_ms int32
    error_code int16
    error_message string? default=null
    outcome int8
    published bool

DropStaged request
    stages []
        producer_id int64
        parts []
            topic string
            partition int32
DropStaged response
    throttle_time_ms int32
    error_code int16
    error_message string? default=null
"""
