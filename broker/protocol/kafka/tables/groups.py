"""Consumer groups: finding the coordinator, membership, committed offsets, and looking at groups."""

from __future__ import annotations

from typing import Final

TABLES: Final = """
FindCoordinator request
    key string 0-3
    key_type int8 1+
    coordinator_keys []string 4+
FindCoordinator response
    throttle_time_ms int32 1+
    error_code int16 0-3
    error_message string? 1-3
    node_id int32 0-3
    host string 0-3
    port int32 0-3
    coordinators [] 4+
        key string
        node_id int32
        host string
        port int32
        error_code int16
        error_message string?

JoinGroup request
    group_id string
    session_timeout_ms int32
    rebalance_timeout_ms int32 1+ default=-1
    member_id string
    group_instance_id string? 5+ default=null
    protocol_type string
    protocols []
        name string
        metadata bytes
    reason string? 8+ default=null
JoinGroup response
    throttle_time_ms int32 2+
    error_code int16
    generation_id int32 default=-1
    protocol_type string? 7+ default=null
    protocol_name string?7+
    leader string
    skip_assignment bool 9+
    member_id string
    members []
        member_id string
        group_instance_id string? 5+ default=null
        metadata bytes

SyncGroup request
    group_id string
    generation_id int32
    member_id string
    group_instance_id string? 3+ default=null
    protocol_type string? 5+ default=null
    protocol_name string? 5+ default=null
    assignments []
        member_id string
        assignment bytes
SyncGroup response
    throttle_time_ms int32 1+
    error_code int16
    protocol_type string? 5+ default=null
    protocol_name string? 5+ default=null
    assignment bytes

Heartbeat request
    group_id string
    generation_id int32
    member_id string
    group_instance_id string? 3+ default=null
Heartbeat response
    throttle_time_ms int32 1+
    error_code int16

LeaveGroup request
    group_id string
    member_id string 0-2
    members [] 3+
        member_id string
        group_instance_id string? default=null
        reason string? 5+ default=null
LeaveGroup response
    throttle_time_ms int32 1+
    error_code int16
    members [] 3+
        member_id string
        group_instance_id string?
        error_code int16

OffsetCommit request
    group_id string
    generation_id_or_member_epoch int32 default=-1
    member_id string
    group_instance_id string? 7+ default=null
    retention_time_ms int64 2-4 default=-1
    topics []
        name string
        partitions []
            partition_index int32
            committed_offset int64
            committed_leader_epoch int32 6+ default=-1
            committed_metadata string?
OffsetCommit response
    throttle_time_ms int32 3+
    topics []
        name string
        partitions []
            partition_index int32
            error_code int16

OffsetFetch request
    group_id string 1-7
    topics []?2+ 1-7
        name string
        partition_indexes []int32
    groups [] 8+
        group_id string
        member_id string? 9+ default=null
        member_epoch int32 9+ default=-1
        topics []?
            name string
            partition_indexes []int32
    require_stable bool 7+
OffsetFetch response
    throttle_time_ms int32 3+
    topics [] 1-7
        name string
        partitions []
            partition_index int32
            committed_offset int64
            committed_leader_epoch int32 5+ default=-1
            metadata string?
            error_code int16
    error_code int16 2-7
    groups [] 8+
        group_id string
        topics []
            name string
            partitions []
                partition_index int32
                committed_offset int64
                committed_leader_epoch int32 default=-1
                metadata string?
                error_code int16
        error_code int16

OffsetDelete request
    group_id string
    topics []
        name string
        partitions []
            partition_index int32
OffsetDelete response
    error_code int16
    throttle_time_ms int32
    topics []
        name string
        partitions []
            partition_index int32
            error_code int16

DescribeGroups request
    groups []string
    include_authorized_operations bool 3+
DescribeGroups response
    throttle_time_ms int32 1+
    groups []
        error_code int16
        group_id string
        group_state string
        protocol_type string
        protocol_data string
        members []
            member_id string
            group_instance_id string? 4+ default=null
            client_id string
            client_host string
            member_metadata bytes
            member_assignment bytes
        authorized_operations int32 3+ default=-2147483648

ListGroups request
    states_filter []string 4+
ListGroups response
    throttle_time_ms int32 1+
    error_code int16
    groups []
        group_id string
        protocol_type string
        group_state string 4+

DeleteGroups request
    groups_names []string
DeleteGroups response
    throttle_time_ms int32
    results []
        group_id string
        error_code int16
"""
