"""Sessions (versions, SASL) and administration: queues, their settings, the cluster."""

from __future__ import annotations

from typing import Final

TABLES: Final = """
ApiVersions request
    client_software_name string 3+
    client_software_version string 3+
ApiVersions response
    error_code int16
    api_keys []
        api_key int16
        min_version int16
        max_version int16
    throttle_time_ms int32 1+
    supported_features [] 3+ tag=0
        name string
        min_version int16
        max_version int16
    finalized_features_epoch int64 3+ tag=1 default=-1
    finalized_features [] 3+ tag=2
        name string
        max_version_level int16
        min_version_level int16
    zk_migration_ready bool 3+ tag=3

SaslHandshake request
    mechanism string
SaslHandshake response
    error_code int16
    mechanisms []string

SaslAuthenticate request
    auth_bytes bytes
SaslAuthenticate response
    error_code int16
    error_message string?
    auth_bytes bytes
    session_lifetime_ms int64 1+

DescribeCluster request
    include_cluster_authorized_operations bool
    endpoint_type int8 1+ default=1
DescribeCluster response
    throttle_time_ms int32
    error_code int16
    error_message string? default=null
    endpoint_type int8 1+ default=1
    cluster_id string
    controller_id int32 default=-1
    brokers []
        broker_id int32
        host string
        port int32
        rack string? default=null
    cluster_authorized_operations int32 default=-2147483648

CreateTopics request
    topics []
        name string
        num_partitions int32
        replication_factor int16
        assignments []
            partition_index int32
            broker_ids []int32
        configs []
            name string
            value string?
    timeout_ms int32 default=60000
    validate_only bool
CreateTopics response
    throttle_time_ms int32
    topics []
        name string
        topic_id uuid 7+
        error_code int16
        error_message string?
        topic_config_error_code int16 5+ tag=0
        num_partitions int32 5+ default=-1
        replication_factor int16 5+ default=-1
        configs []? 5+
            name string
            value string?
            read_only bool
            config_source int8 default=-1
            is_sensitive bool

DeleteTopics request
    topics [] 6+
        name string? default=null
        topic_id uuid
    topic_names []string 1-5
    timeout_ms int32
DeleteTopics response
    throttle_time_ms int32
    responses []
        name string?6+
        topic_id uuid 6+
        error_code int16
        error_message string? 5+ default=null

CreatePartitions request
    topics []
        name string
        count int32
        assignments []?
            broker_ids []int32
    timeout_ms int32
    validate_only bool
CreatePartitions response
    throttle_time_ms int32
    results []
        name string
        error_code int16
        error_message string? default=null

DescribeConfigs request
    resources []
        resource_type int8
        resource_name string
        configuration_keys []string?
    include_synonyms bool
    include_documentation bool 3+
DescribeConfigs response
    throttle_time_ms int32
    results []
        error_code int16
        error_message string?
        resource_type int8
        resource_name string
        configs []
            name string
            value string?
            read_only bool
            config_source int8 default=-1
            is_sensitive bool
            synonyms []
                name string
                value string?
                source int8
            config_type int8 3+
            documentation string? 3+

IncrementalAlterConfigs request
    resources []
        resource_type int8
        resource_name string
        configs []
            name string
            config_operation int8
            value string?
    validate_only bool
IncrementalAlterConfigs response
    throttle_time_ms int32
    responses []
        error_code int16
        error_message string?
        resource_type int8
        resource_name string
"""
