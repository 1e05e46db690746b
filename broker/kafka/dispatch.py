"""From a request to its handler: one table, and the versions that are served."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from quorate.broker.kafka.context import Call, Context, Later, Message
from quorate.broker.kafka.handlers import (
    closing,
    commits,
    configs,
    fetch,
    groups,
    metadata,
    offsets,
    produce,
    producers,
    staging,
    topics,
    versions,
)
from quorate.broker.kafka.request import Request
from quorate.broker.protocol.kafka.apis import PRIVATE, SUPPORTED, Api
from quorate.broker.protocol.kafka.codec import decode_request, encode_response
from quorate.broker.protocol.kafka.errors import BadMessage

Handler = Callable[[Context, Call, Message], Message | Later]
CallbackHandler = Callable[[Context, Call, Message, Callable[[Message], None]], None]

_PRODUCE, _FETCH, _API_VERSIONS = int(Api.PRODUCE), int(Api.FETCH), int(Api.API_VERSIONS)

HANDLERS: Mapping[int, Handler] = {
    Api.METADATA: metadata.metadata,
    Api.DESCRIBE_CLUSTER: metadata.describe_cluster,
    Api.FIND_COORDINATOR: metadata.find_coordinator,
    Api.LIST_OFFSETS: offsets.list_offsets,
    Api.OFFSET_FOR_LEADER_EPOCH: offsets.offset_for_leader_epoch,
    Api.DELETE_RECORDS: offsets.delete_records,
    Api.CREATE_TOPICS: topics.create_topics,
    Api.DELETE_TOPICS: topics.delete_topics,
    Api.CREATE_PARTITIONS: topics.create_partitions,
    Api.DESCRIBE_CONFIGS: configs.describe_configs,
    Api.INCREMENTAL_ALTER_CONFIGS: configs.incremental_alter_configs,
    Api.INIT_PRODUCER_ID: producers.init_producer_id,
    Api.CLOSED_TIME: closing.closed_time,
    Api.STAGE: staging.stage,
    Api.COMMIT_STAGED: staging.commit_staged,
    Api.DROP_STAGED: staging.drop_staged,
}
BY_CALLBACK: Mapping[int, CallbackHandler] = {
    Api.JOIN_GROUP: groups.join_group,
    Api.SYNC_GROUP: groups.sync_group,
    Api.HEARTBEAT: groups.heartbeat,
    Api.LEAVE_GROUP: groups.leave_group,
    Api.OFFSET_COMMIT: commits.offset_commit,
    Api.OFFSET_FETCH: commits.offset_fetch,
    Api.OFFSET_DELETE: commits.offset_delete,
    Api.DESCRIBE_GROUPS: groups.describe_groups,
    Api.LIST_GROUPS: groups.list_groups,
    Api.DELETE_GROUPS: groups.delete_groups,
}
SERVED = {
    int(api): SUPPORTED[api]
    for api in (Api.PRODUCE, Api.FETCH, Api.API_VERSIONS, *map(Api, HANDLERS), *map(Api, BY_CALLBACK))
    if api in SUPPORTED
}
"""What is advertised: the APIs that have a handler."""
OWN = {int(api): PRIVATE[api] for api in map(Api, HANDLERS) if api in PRIVATE}
"""What is advertised to our own clients alone."""
_VERSIONS = SERVED | OWN


def dispatch(context: Context, request: Request) -> Later | None:
    """Serve a request: it is completed now or later by itself, or by what is returned. Raises BadMessage."""
    api, version = request.api, request.version
    served = _VERSIONS.get(api)
    if served is None:
        raise BadMessage(f"api {api} is not served")
    if not served[0] <= version <= served[1]:
        if api != _API_VERSIONS:
            raise BadMessage(f"version {version} of api {api} is not served")
        request.send(_too_new(request))
        return None
    if api == _PRODUCE:
        produce.produce(context, request)
        return None
    if api == _FETCH:
        fetch.fetch(context, request)
        return None
    try:
        message = decode_request(api, version, request.body)
    except BadMessage as error:
        raise BadMessage(f"api {api} version {version}: {error}") from error
    if api == _API_VERSIONS:
        request.reply(versions.api_versions(SERVED, OWN, message))
        return None
    call = Call(api, version, request.client_id or "", request.origin.host)
    by_callback = BY_CALLBACK.get(api)
    if by_callback is not None:
        by_callback(context, call, message, request.reply)
        return None
    answer = HANDLERS[api](context, call, message)
    if not isinstance(answer, dict):
        return answer
    request.reply(answer)
    return None


def _too_new(request: Request) -> tuple[bytes, bytes]:
    """A client that is newer than we are learns what we know from an answer that every client can read."""
    body = encode_response(_API_VERSIONS, 0, versions.unsupported_version(SERVED))
    head = (len(body) + 4).to_bytes(4, "big") + request.correlation_id.to_bytes(4, "big", signed=True)
    return head, body
