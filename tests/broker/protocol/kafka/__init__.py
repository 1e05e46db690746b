"""Kafka's messages: ours against those of kio and kafka-python, and against nonsense."""
