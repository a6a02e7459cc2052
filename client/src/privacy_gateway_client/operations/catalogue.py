"""What a gateway offers: models, domains, entities, recognisers, policies, presets, calculations, health."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from privacy_gateway_client.answers import Recogniser
from privacy_gateway_client.core import Core
from privacy_gateway_client.effects import Incoming, Op, Outgoing
from privacy_gateway_client.errors import ConnectionLost, NotFound, Problem
from privacy_gateway_client.exchange import call, get, given, parsed_json, post, put
from privacy_gateway_client.operations.reading import fetched, fetched_json, listed, pages

RECOGNISERS = "/sanitize/recognisers"


def models(core: Core) -> Op[dict[str, Any]]:
    """The models that run, and the tenant's fine-tuned ones."""
    return (yield from fetched_json(core, get("/models")))


def delete_fine_tuned(core: Core, name: str) -> Op[None]:
    """Delete a fine-tuned model of the tenant."""
    yield from delete(core, f"/models/fine-tuned/{name}")


def presets(core: Core) -> Op[list[dict[str, Any]]]:
    """The presets and language models of `/v1`."""
    return (yield from listed(core, get("/v1/models"), "data"))


def preset(core: Core, model: str) -> Op[dict[str, Any]]:
    return (yield from fetched_json(core, get(f"/v1/models/{model}")))


def domains(core: Core) -> Op[list[dict[str, Any]]]:
    """The domain packs that the tenant may name."""
    return (yield from listed(core, get("/domains"), "domains"))


def delete_domain(core: Core, name: str) -> Op[None]:
    """Delete a domain of the tenant."""
    yield from delete(core, f"/domains/{name}")


def entities(core: Core) -> Op[dict[str, Any]]:
    """What the technique `entity` recognises, and its profiles."""
    return (yield from fetched_json(core, get("/entities")))


def policies(core: Core) -> Op[list[dict[str, Any]]]:
    """The operator's policies that the tenant may name, or must use."""
    return (yield from listed(core, get("/policies"), "policies"))


def list_recognisers(core: Core, *, limit: int | None = None) -> Op[None]:
    """Every recogniser; patterns and terms as their numbers."""
    yield from pages(core, RECOGNISERS, "recognisers", Recogniser, limit=limit)


def get_recogniser(core: Core, name: str) -> Op[Recogniser]:
    """One recogniser with its patterns and terms."""
    return (yield from fetched(core, Recogniser, get(f"{RECOGNISERS}/{name}")))


def put_recogniser(core: Core, name: str, recogniser: Mapping[str, Any]) -> Op[Recogniser]:
    """Create or replace a recogniser."""
    return (yield from fetched(core, Recogniser, put(f"{RECOGNISERS}/{name}", recogniser)))


def delete_recogniser(core: Core, name: str) -> Op[None]:
    yield from delete(core, f"{RECOGNISERS}/{name}")


def try_recogniser(
    core: Core, recogniser: Mapping[str, Any], text: str, *, threshold: float | None = None
) -> Op[dict[str, Any]]:
    """What a recogniser finds in a text, without storing either."""
    members = given({"recogniser": recogniser, "text": text, "threshold": threshold})
    return (yield from fetched_json(core, post(f"{RECOGNISERS}/test", members)))


def compare(core: Core, mechanism: Mapping[str, Any], *, delta: float, steps: int = 1) -> Op[dict[str, Any]]:
    """Every accountant's epsilon of a plan. `mechanism`: such as `{"kind": "gaussian", "noise_multiplier": 1.1}`."""
    members = {"mechanism": mechanism, "delta": delta, "steps": steps}
    return (yield from fetched_json(core, post("/accounting/compare", members)))


def calibrate(
    core: Core,
    *,
    epsilon: float,
    delta: float,
    sampling_rate: float = 1.0,
    steps: int | None = None,
    noise_multiplier: float | None = None,
) -> Op[dict[str, Any]]:
    """The least noise for a number of steps, or the most steps for a noise. Give exactly one of the two."""
    members: dict[str, Any] = {"target": {"epsilon": epsilon, "delta": delta}, "sampling_rate": sampling_rate}
    members |= given({"steps": steps, "noise_multiplier": noise_multiplier})
    return (yield from fetched_json(core, post("/accounting/calibrate", members)))


def live(core: Core) -> Op[bool]:
    """Whether the gateway's process answers."""
    return (yield from fetched_json(core, get("/livez"))).get("status") == "alive"


def ready(core: Core) -> Op[dict[str, Any]]:
    """The state of the workers. Raises NotStarted while the gateway is not ready, without trying again."""
    answer = yield from call(replace(core.retry, attempts=1), get("/readyz"))
    result: dict[str, Any] = parsed_json(answer.content)
    return result


def metrics(core: Core) -> Op[str]:
    """The metrics of the gateway, in Prometheus' format. With the admin key."""
    answer = yield from call(core.retry, get("/metrics"))
    return answer.content.decode()


def delete(core: Core, path: str) -> Op[Incoming | None]:
    """DELETE. If the first answer was lost, the thing may be gone already: that is a success."""
    once = replace(core.retry, attempts=1)
    request = Outgoing("DELETE", path)
    try:
        return (yield from call(once, request))
    except ConnectionLost:
        pass
    except Problem as problem:
        if not problem.may_repeat:
            raise
        return (yield from call(core.retry, request))
    try:
        return (yield from call(core.retry, request))
    except NotFound:
        return None
