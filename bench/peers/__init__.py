"""Clusters that can be measured and tested against, each behind the same few methods: Quorate, Apache Kafka, NATS JetStream."""
