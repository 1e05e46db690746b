"""Real Kafka clients, each in a process of its own, against a running cluster."""
