"""`python -m tests.spark.proofs.driver`: a query from queue to queue, exactly once, that a test kills. JSON says which."""

from __future__ import annotations

import json
import sys

from tests.spark.proofs.hooked import HookedSource
from tests.support.local_spark import open_local_spark


def main(spec: dict[str, str]) -> None:
    with open_local_spark() as session:
        session.dataSource.register(HookedSource)
        reader = session.readStream.format("quorate").option("kafka.bootstrap.servers", spec["bootstrap"])
        reader = reader.option("subscribe", spec["source"]).option("startingOffsets", spec["starting"])
        rows = reader.option("maxOffsetsPerTrigger", spec["most"]).load()
        writer = rows.select("key", "value").writeStream.format("quorate").option("topic", spec["sink"])
        writer = writer.option("kafka.bootstrap.servers", spec["bootstrap"]).option("delivery", "exactly-once")
        writer = writer.option("checkpointLocation", spec["checkpoint"])
        if spec.get("follow"):
            query = writer.trigger(processingTime="0 seconds").start()
        else:
            query = writer.trigger(availableNow=True).start()
        print("started", flush=True)
        query.awaitTermination()
    print("done", flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
