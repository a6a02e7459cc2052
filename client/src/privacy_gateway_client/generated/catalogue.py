# Written by `make client` from asynchronous/catalogue.py. Do not edit.
"""What a gateway offers: models, domains, recognisers, calculations, language models, Presidio's contracts, the vault
and its health.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from privacy_gateway_client.answers import Recogniser
from privacy_gateway_client.generated.connection import Group
from privacy_gateway_client.wire import Tensor, matrix_of
from privacy_gateway_client.wire import JSON_HEADERS, Outgoing, get, given, json_of, parsed_json, post, put

RECOGNISERS = "/sanitize/recognisers"
CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"


class Catalogue(Group):
    """What `sanitize` can find, and the operator's policies."""

    def entities(self) -> dict[str, Any]:
        """What the technique `entity` recognises, and its profiles."""
        return self._connection.json(get("/entities"))

    def policies(self) -> list[dict[str, Any]]:
        """The operator's policies that the tenant may name, or must use."""
        return self._connection.rows(get("/policies"), "policies")


class Models(Group):
    """Models, presets and projections."""

    def delete_fine_tuned(self, name: str) -> None:
        """Delete a fine-tuned model of the tenant."""
        self._connection.delete(f"/models/fine-tuned/{name}")

    def projection(self, kind: str, dimension: int, output_dimension: int) -> tuple[Any, float]:
        """The public matrix `[output_dimension, dimension]` of the tenant's releases, and its stretch.

        kind: `orthonormal`, `gaussian` or `pca`.
        """
        path = f"/models/projections/{kind}-{dimension}-{output_dimension}"
        tensor = Tensor((self._connection.call(get(path))).content, "projection")
        return matrix_of(tensor.kind, tensor.shape, [tensor.numbers]), float(tensor.metadata.get("stretch", 1.0))

    def presets(self) -> list[dict[str, Any]]:
        """The presets and language models of `/v1`."""
        return self._connection.rows(get("/v1/models"), "data")

    def preset(self, model: str) -> dict[str, Any]:
        """One preset or language model of `/v1`."""
        return self._connection.json(get(f"/v1/models/{model}"))

    # stands last: after it, `list` in an annotation would be this method
    def list(self) -> dict[str, Any]:
        """The models that run, and the tenant's fine-tuned ones."""
        return self._connection.json(get("/models"))


class Domains(Group):
    """Domain packs."""

    def list(self) -> list[dict[str, Any]]:
        """The domain packs that the tenant may name."""
        return self._connection.rows(get("/domains"), "domains")

    def delete(self, name: str) -> None:
        """Delete a domain of the tenant."""
        self._connection.delete(f"/domains/{name}")


class Recognisers(Group):
    """The tenant's own recognisers."""

    def list(self, *, limit: int | None = None) -> Iterator[Recogniser]:
        """Every recogniser; patterns and terms as their numbers."""
        return self._connection.pages(RECOGNISERS, "recognisers", Recogniser, limit=limit)

    def get(self, name: str) -> Recogniser:
        """One recogniser with its patterns and terms."""
        return self._connection.model(Recogniser, get(f"{RECOGNISERS}/{name}"))

    def put(self, name: str, recogniser: Mapping[str, Any]) -> Recogniser:
        """Create or replace a recogniser."""
        return self._connection.model(Recogniser, put(f"{RECOGNISERS}/{name}", recogniser))

    def delete(self, name: str) -> None:
        """Delete a recogniser."""
        self._connection.delete(f"{RECOGNISERS}/{name}")

    def try_out(
        self, recogniser: Mapping[str, Any], text: str, *, threshold: float | None = None
    ) -> dict[str, Any]:
        """What a recogniser finds in a text, without storing either."""
        members = given({"recogniser": recogniser, "text": text, "threshold": threshold})
        return self._connection.json(post(f"{RECOGNISERS}/test", members))


class Accounting(Group):
    """Calculations over plans."""

    def compare(self, mechanism: Mapping[str, Any], *, delta: float, steps: int = 1) -> dict[str, Any]:
        """Every accountant's epsilon of a plan.

        mechanism: such as `{"kind": "gaussian", "noise_multiplier": 1.1}`.
        """
        members = {"mechanism": mechanism, "delta": delta, "steps": steps}
        return self._connection.json(post("/accounting/compare", members))

    def calibrate(
        self,
        *,
        epsilon: float,
        delta: float,
        sampling_rate: float = 1.0,
        steps: int | None = None,
        noise_multiplier: float | None = None,
    ) -> dict[str, Any]:
        """The least noise for a number of steps, or the most steps for a noise. Give exactly one of the two."""
        members: dict[str, Any] = {"target": {"epsilon": epsilon, "delta": delta}, "sampling_rate": sampling_rate}
        members |= given({"steps": steps, "noise_multiplier": noise_multiplier})
        return self._connection.json(post("/accounting/calibrate", members))


class LanguageModels(Group):
    """Language models behind the gateway, in the formats of OpenAI and Anthropic.

    The gateway masks the request and restores the answer. A call is not repeated once it was sent, because the model
    may have been paid.
    """

    def chat_completions(
        self, request: Mapping[str, Any], *, policy: str | None = None, conversation: str | None = None
    ) -> dict[str, Any]:
        """`POST /v1/chat/completions`: the members of OpenAI's request."""
        return self._connection.json(_to_model(CHAT, request, policy, conversation))

    def responses(
        self, request: Mapping[str, Any], *, policy: str | None = None, conversation: str | None = None
    ) -> dict[str, Any]:
        """`POST /v1/responses`: the members of OpenAI's request."""
        return self._connection.json(_to_model(RESPONSES, request, policy, conversation))

    def messages(
        self, request: Mapping[str, Any], *, policy: str | None = None, conversation: str | None = None
    ) -> dict[str, Any]:
        """`POST /v1/messages`: the members of Anthropic's request."""
        return self._connection.json(_to_model(MESSAGES, request, policy, conversation))

    def stream(
        self,
        path: str,
        request: Mapping[str, Any],
        *,
        policy: str | None = None,
        conversation: str | None = None,
    ) -> Iterator[dict[str, Any]]:
        """The events of one of the three paths, with `"stream": true`: the data of each, parsed."""
        streamed = _to_model(path, {**request, "stream": True}, policy, conversation)
        with self._connection.stream(streamed) as answer:
            for event in answer.events():
                if event.data != "[DONE]":
                    yield parsed_json(event.data)


def _to_model(path: str, request: Mapping[str, Any], policy: str | None, conversation: str | None) -> Outgoing:
    headers = JSON_HEADERS | given({"Privacy-Policy": policy, "Privacy-Conversation": conversation})
    return Outgoing("POST", path, headers=headers, content=json_of(dict(request)), repeatable=False)


class Presidio(Group):
    """Personal data by Presidio's contracts, and LiteLLM's guardrail; answers as these contracts have them."""

    def analyze(self, /, text: str | Sequence[str], *, language: str = "en", **members: Any) -> Any:
        """Find personal data. `members`: those of Presidio's request."""
        return self._connection.json(post("/analyze", {"text": text, "language": language, **members}))

    def anonymize(self, request: Mapping[str, Any]) -> Any:
        """Replace finds in texts."""
        return self._connection.json(post("/anonymize", request))

    def deanonymize(self, request: Mapping[str, Any]) -> Any:
        """Decrypt places of texts."""
        return self._connection.json(post("/deanonymize", request))

    def supported_entities(self, *, language: str | None = None) -> Any:
        """The types that `analyze` finds."""
        return self._connection.json(get("/supportedentities", language=language))

    def recognizers(self, *, language: str | None = None) -> Any:
        """The recognisers of `analyze`."""
        return self._connection.json(get("/recognizers", language=language))

    def anonymizers(self) -> Any:
        """The operators of `anonymize`."""
        return self._connection.json(get("/anonymizers"))

    def deanonymizers(self) -> Any:
        """The operators of `deanonymize`."""
        return self._connection.json(get("/deanonymizers"))

    def guardrail(self, request: Mapping[str, Any]) -> Any:
        """Mask a request of LiteLLM, or restore its answer."""
        return self._connection.json(post("/beta/litellm_basic_guardrail_api", request, repeatable=False))


class Vault(Group):
    """Entries of the tenant in the vault."""

    def entries(self, *, limit: int | None = None) -> Iterator[dict[str, Any]]:
        """The entries of the vault of the tenant."""
        return self._connection.pages("/vault", "data", None, limit=limit)

    def delete(self, entry_id: str) -> None:
        """Delete an entry."""
        self._connection.delete(f"/vault/{entry_id}")

    def clear(self) -> None:
        """Delete all entries of the tenant."""
        self._connection.delete("/vault")


class Health(Group):
    """Liveness, readiness and metrics."""

    def live(self) -> bool:
        """Whether the gateway's process answers."""
        return (self._connection.json(get("/livez"))).get("status") == "alive"

    def ready(self) -> dict[str, Any]:
        """The state of the workers. Raises NotStarted while the gateway is not ready, without trying again."""
        once = replace(self._connection.retry, attempts=1)
        state: dict[str, Any] = parsed_json((self._connection.call(get("/readyz"), retry=once)).content)
        return state

    def metrics(self) -> str:
        """The metrics of the gateway, in Prometheus' format. With the admin key."""
        return (self._connection.call(get("/metrics"))).content.decode()
