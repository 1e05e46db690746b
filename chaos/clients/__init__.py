"""The clients of a run: librdkafka in threads, and a small client of our own for what must reach one given node."""
