"""What moves records and says where they are: Produce, Fetch, offsets by time and epoch, Metadata, producer ids."""

from __future__ import annotations

from typing import Final

TABLES: Final = """
Produce request
    transactional_id string? 3+ default=null
    acks int16
    timeout_ms int32
    topic_data []
        name string
        partition_data []
            index int32
            records records?
Produce response
    responses []
        name string
        partition_responses []
            index int32
            error_code int16
            base_offset int64
            log_append_time_ms int64 2+ default=-1
            log_start_offset int64 5+ default=-1
            record_errors [] 8+
                batch_index int32
                batch_index_error_message string? default=null
            error_message string? 8+ default=null
            current_leader struct 10+ tag=0
                leader_id int32 default=-1
                leader_epoch int32 default=-1
    throttle_time_ms int32 1+
    node_endpoints [] 10+ tag=0
        node_id int32
        host string
        port int32
        rack string? default=null

Fetch request
    cluster_id string? 12+ tag=0 default=null
    replica_id int32 4-14 default=-1
    replica_state struct 15+ tag=1
        replica_id int32 default=-1
        replica_epoch int64 default=-1
    max_wait_ms int32
    min_bytes int32
    max_bytes int32 default=2147483647
    isolation_level int8
    session_id int32 7+
    session_epoch int32 7+ default=-1
    topics []
        topic string 4-12
        topic_id uuid 13+
        partitions []
            partition int32
            current_leader_epoch int32 9+ default=-1
            fetch_offset int64
            last_fetched_epoch int32 12+ default=-1
            log_start_offset int64 5+ default=-1
            partition_max_bytes int32
    forgotten_topics_data [] 7+
        topic string 7-12
        topic_id uuid 13+
        partitions []int32
    rack_id string 11+
Fetch response
    throttle_time_ms int32
    error_code int16 7+
    session_id int32 7+
    responses []
        topic string 4-12
        topic_id uuid 13+
        partitions []
            partition_index int32
            error_code int16
            high_watermark int64
            last_stable_offset int64 default=-1
            log_start_offset int64 5+ default=-1
            diverging_epoch struct 12+ tag=0
                epoch int32 default=-1
                end_offset int64 default=-1
            current_leader struct 12+ tag=1
                leader_id int32 default=-1
                leader_epoch int32 default=-1
            snapshot_id struct 12+ tag=2
                end_offset int64 default=-1
                epoch int32 default=-1
            aborted_transactions []?
                producer_id int64
                first_offset int64
            preferred_read_replica int32 11+ default=-1
            records records?
    node_endpoints [] 16+ tag=0
        node_id int32
        host string
        port int32
        rack string? default=null

ListOffsets request
    replica_id int32
    isolation_level int8 2+
    topics []
        name string
        partitions []
            partition_index int32
            current_leader_epoch int32 4+ default=-1
            timestamp int64
ListOffsets response
    throttle_time_ms int32 2+
    topics []
        name string
        partitions []
            partition_index int32
            error_code int16
            timestamp int64 default=-1
            offset int64 default=-1
            leader_epoch int32 4+ default=-1

OffsetForLeaderEpoch request
    replica_id int32 3+ default=-2
    topics []
        topic string
        partitions []
            partition int32
            current_leader_epoch int32 default=-1
            leader_epoch int32
OffsetForLeaderEpoch response
    throttle_time_ms int32
    topics []
        topic string
        partitions []
            error_code int16
            partition int32
            leader_epoch int32 default=-1
            end_offset int64 default=-1

DeleteRecords request
    topics []
        name string
        partitions []
            partition_index int32
            offset int64
    timeout_ms int32
DeleteRecords response
    throttle_time_ms int32
    topics []
        name string
        partitions []
            partition_index int32
            low_watermark int64
            error_code int16

Metadata request
    topics []?1+
        topic_id uuid 10+
        name string?10+
    allow_auto_topic_creation bool 4+ default=true
    include_cluster_authorized_operations bool 8-10
    include_topic_authorized_operations bool 8+
Metadata response
    throttle_time_ms int32 3+
    brokers []
        node_id int32
        host string
        port int32
        rack string? 1+ default=null
    cluster_id string? 2+ default=null
    controller_id int32 1+ default=-1
    topics []
        error_code int16
        name string?12+
        topic_id uuid 10+
        is_internal bool 1+
        partitions []
            error_code int16
            partition_index int32
            leader_id int32
            leader_epoch int32 7+ default=-1
            replica_nodes []int32
            isr_nodes []int32
            offline_replicas []int32 5+
        topic_authorized_operations int32 8+ default=-2147483648
    cluster_authorized_operations int32 8-10 default=-2147483648

InitProducerId request
    transactional_id string?
    transaction_timeout_ms int32
    producer_id int64 3+ default=-1
    producer_epoch int16 3+ default=-1
InitProducerId response
    throttle_time_ms int32
    error_code int16
    producer_id int64 default=-1
    producer_epoch int16
"""
