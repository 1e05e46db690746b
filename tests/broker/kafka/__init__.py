"""The Kafka listener, against a backend in memory."""
