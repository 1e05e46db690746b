"""Clusters to measure and to test against, behind the same few methods: Quorate, Apache Kafka, NATS JetStream."""
