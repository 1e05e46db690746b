"""Runs one job in this process."""

from __future__ import annotations

import json
import sys

from tests.clients.drivers.job import Client, Job


def client(name: str) -> Client:
    if name == "confluent":
        from tests.clients.drivers.confluent import Confluent

        return Confluent()
    if name == "kafka-python":
        from tests.clients.drivers.kafkapython import KafkaPython

        return KafkaPython()
    from tests.clients.drivers.aio import AioKafka

    return AioKafka()


if __name__ == "__main__":
    job = Job(**json.loads(sys.argv[1]))
    getattr(client(job.client), job.do)(job)
