"""Topics: looking at them, and making and deleting them as tests and pipelines need it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from quorate.broker.protocol.kafka.apis import Api
from quorate.broker.protocol.kafka.errors import Error
from quorate.client.core import Core
from quorate.client.errors import BadAnswer, RequestFailed, UnknownTopic
from quorate.client.pool import Lane
from quorate.client.values import Address, TopicInfo


async def topics(core: Core, names: Collection[str] | None = None) -> dict[str, TopicInfo]:
    """All topics unless some are named, as one node knows them now. One that does not exist comes with its error."""
    infos = await core.repeat(lambda: core.metadata.ask(names))
    return {info.name: info for info in infos}


async def create_topic(
    core: Core, name: str, partitions: int = -1, replication: int = -1, settings: Mapping[str, str] | None = None
) -> None:
    """Create a topic; -1: as many as the cluster thinks fit. After an error that is not definite, look."""
    configs = [{"name": key, "value": value} for key, value in (settings or {}).items()]
    topic = {"name": name, "num_partitions": partitions, "replication_factor": replication, "configs": configs}
    value = {"topics": [topic], "timeout_ms": core.settings.request_timeout_ms}
    await _do(core, Api.CREATE_TOPICS, value, "topics", name, "creation of")


async def delete_topic(core: Core, name: str) -> None:
    """Delete a topic and all that is in it. After an error that is not definite, look."""
    value = {"topic_names": [name], "timeout_ms": core.settings.request_timeout_ms}
    await _do(core, Api.DELETE_TOPICS, value, "responses", name, "deletion of")


async def _do(core: Core, api: Api, value: dict[str, Any], answers: str, name: str, what: str) -> None:
    async def once(address: Address) -> None:
        said = await core.ask(address, api, value, Lane.ALONE, extra_s=1.0)
        _check(said[answers], name, what, address)

    await core.at_any(once, again=lambda error: error.definite)


def _check(answers: list[dict[str, Any]], name: str, what: str, address: Address) -> None:
    for one in answers:
        if one["name"] == name:
            if one["error_code"] == Error.UNKNOWN_TOPIC_OR_PARTITION:
                raise UnknownTopic(name)
            if one["error_code"]:
                raise RequestFailed(one["error_code"], f"{what} topic {name!r}", one.get("error_message"))
            return
    raise BadAnswer(str(address), f"nothing about topic {name!r}")
