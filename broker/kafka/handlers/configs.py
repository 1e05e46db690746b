"""Settings of queues and brokers: DescribeConfigs, IncrementalAlterConfigs."""

from __future__ import annotations

from quorate.broker.kafka.backend import (
    Alteration,
    AlterKind,
    Backend,
    KafkaFailure,
    ResourceKind,
    Setting,
    SettingSource,
)
from quorate.broker.kafka.context import Call, Context, Message
from quorate.broker.protocol.kafka.errors import Error


def describe_configs(context: Context, call: Call, message: Message) -> Message:
    """All settings of each resource, or those that are named."""
    synonyms, documentation = bool(message.get("include_synonyms")), bool(message.get("include_documentation"))
    results = []
    for resource in message["resources"]:
        answer = _resource(resource)
        answer["configs"] = []
        keys = resource.get("configuration_keys")
        try:
            settings = _settings(context.backend, resource)
        except KafkaFailure as failure:
            answer.update(error_code=int(failure.error), error_message=failure.message or None)
        else:
            wanted = [setting for setting in settings if keys is None or setting.name in keys]
            answer["configs"] = [_config(setting, synonyms, documentation) for setting in wanted]
        results.append(answer)
    return {"throttle_time_ms": 0, "results": results}


def _settings(backend: Backend, resource: Message) -> list[Setting]:
    return list(backend.describe_settings(_kind(resource), resource["resource_name"]))


def _kind(resource: Message) -> ResourceKind:
    try:
        return ResourceKind(resource["resource_type"])
    except ValueError as error:
        message = f"resources of kind {resource['resource_type']} have no settings here"
        raise KafkaFailure(Error.INVALID_REQUEST, message) from error


def _resource(resource: Message) -> Message:
    return {
        "error_code": 0,
        "error_message": None,
        "resource_type": resource["resource_type"],
        "resource_name": resource["resource_name"],
    }


def _config(setting: Setting, synonyms: bool, documentation: bool) -> Message:
    value = None if setting.sensitive else setting.value
    same: list[Message] = []
    if synonyms:
        same.append({"name": setting.name, "value": value, "source": int(setting.source)})
        if setting.source is not SettingSource.DEFAULT and setting.default is not None:
            same.append({"name": setting.name, "value": setting.default, "source": int(SettingSource.DEFAULT)})
    return {
        "name": setting.name,
        "value": value,
        "read_only": setting.read_only,
        "config_source": int(setting.source),
        "is_sensitive": setting.sensitive,
        "synonyms": same,
        "config_type": int(setting.type),
        "documentation": setting.documentation if documentation else None,
    }


async def incremental_alter_configs(context: Context, call: Call, message: Message) -> Message:
    """Set or unset single settings; all changes of one resource happen, or none of them."""
    validate_only = bool(message.get("validate_only"))
    responses = []
    for resource in message["resources"]:
        answer = _resource(resource)
        responses.append(answer)
        try:
            kind, name = _kind(resource), resource["resource_name"]
            await context.backend.alter_settings(kind, name, _changes(resource), validate_only=validate_only)
        except KafkaFailure as failure:
            answer.update(error_code=int(failure.error), error_message=failure.message or None)
    return {"throttle_time_ms": 0, "responses": responses}


def _changes(resource: Message) -> list[Alteration]:
    changes: list[Alteration] = []
    for config in resource["configs"]:
        try:
            kind = AlterKind(config["config_operation"])
        except ValueError as error:
            raise KafkaFailure(Error.INVALID_REQUEST, f"operation {config['config_operation']} is not known") from error
        if kind is not AlterKind.DELETE and config.get("value") is None:
            raise KafkaFailure(Error.INVALID_REQUEST, f"{config['name']} lacks a value")
        changes.append(Alteration(config["name"], kind, config.get("value")))
    if len({change.name for change in changes}) != len(changes):
        raise KafkaFailure(Error.INVALID_REQUEST, "a setting is named twice")
    return changes
