"""The client, and the groups of its methods that charge nothing by themselves: budgets, catalogue and administration.

A report on a budget is the JSON object that the gateway's OpenAPI document describes. A request that makes a key or a
tenant is not repeated after its answer was lost: list the keys to see what happened.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

from typing_extensions import Self, Unpack

from privacy_gateway_client.asynchronous.connection import Connection, MethodGroup, ranges
from privacy_gateway_client.asynchronous.content import Embedding, Sanitizing
from privacy_gateway_client.asynchronous.jobs import Jobs, Submission
from privacy_gateway_client.errors import FieldError, InvalidRequest, line_problem
from privacy_gateway_client.generated.models import (
    Account,
    AlertRule,
    CostEstimate,
    KeyFacts,
    KeySecret,
    Predictions,
    RecogniserFacts,
    RecogniserRow,
    StoredRecogniser,
    TenantKey,
)
from privacy_gateway_client.inputs import checked, numbered, texts_of
from privacy_gateway_client.options import BudgetCap, ClientSettings, KeyOptions, TenantOptions
from privacy_gateway_client.wire import (
    JSON_HEADERS,
    Outgoing,
    Tensor,
    get,
    given,
    json_of,
    matrix_of,
    parsed_json,
    post,
    put,
)


class Budget(MethodGroup):
    """Budget queries; none of them charges."""

    def accounts(self, *, limit: int | None = None) -> AsyncIterator[Account]:
        """Every account of the tenant: its own, then its subjects'. `limit`: accounts of one page."""
        return self._connection.pages("/budget", "accounts", Account, limit=limit)

    async def statement(self, *, from_ms: int | None = None, to_ms: int | None = None) -> dict[str, Any]:
        """The signed statement of the tenant and period, for an auditor."""
        return await self._connection.json(get("/budget/statement", **{"from": from_ms, "to": to_ms}))

    async def account(self, account: str) -> Account:
        """One account, such as `acme/sentence`."""
        return await self._connection.model(Account, get(f"/budget/{account}"))

    async def headroom(self, account: str, *, epsilon: float | None = None) -> dict[str, Any]:
        """How many more requests of each preset and mechanism an account admits. `epsilon`: of one document."""
        return await self._connection.json(get(f"/budget/{account}/headroom", epsilon=epsilon))

    async def remaining(self, mechanism: str, *, epsilon: float, account: str | None = None) -> int:
        """How many more requests of one document by a mechanism at `epsilon` are admitted if nothing else is reserved.

        account: one of those that it debits; by default an own account of the tenant, whichever the mechanism debits.
        Raises LookupError if the gateway prices no such mechanism now.
        """
        if account is not None:
            accounts = [account]
        else:
            tenant = await self._connection.tenant_name()
            accounts = [f"{tenant}/{unit}" for unit in ("sentence", "token", "vector", "record")]
        for one in accounts:
            requests = (await self.headroom(one, epsilon=epsilon))["requests"]
            fits = [row["fits"] for row in requests if row["preset"] is None and row["mechanism"] == mechanism]
            if fits:
                return int(min(fits))
        raise LookupError(mechanism)

    def journal(
        self,
        account: str,
        *,
        limit: int | None = None,
        from_ms: int | None = None,
        to_ms: int | None = None,
        transition: str | None = None,
        mechanism: str | None = None,
        route: str | None = None,
        key_id: str | None = None,
        subject: str | None = None,
        order: str | None = None,
    ) -> AsyncIterator[dict[str, Any]]:
        """The entries of an account's journal. `limit`: of one page; the others choose entries and their order."""
        filters = {"transition": transition, "mechanism": mechanism, "route": route, "key_id": key_id}
        filters |= {"subject": subject, "order": order}
        times = {"from": from_ms, "to": to_ms}
        return self._connection.pages(f"/budget/{account}/journal", "entries", None, limit=limit, **times, **filters)

    async def export_journal(
        self, /, account: str, *, from_ms: int | None = None, to_ms: int | None = None, **filters: str | None
    ) -> AsyncIterator[dict[str, Any]]:
        """The journal of an account, row by row. `filters`: `transition`, `mechanism`, `route`, `key_id`, `subject`."""
        params = {"from": from_ms, "to": to_ms, "format": "jsonl", **filters}
        async with await self._connection.stream(get(f"/budget/{account}/journal/export", **params)) as answer:
            async for row in answer.json_lines():
                yield row

    def subjects(self, account: str, *, near: float | None = None, limit: int | None = None) -> AsyncIterator[Account]:
        """The subjects' accounts of the unit, the least remaining first.

        near: only those with less than this epsilon. limit: of one page.
        """
        return self._connection.pages(f"/budget/{account}/subjects", "subjects", Account, near=near, limit=limit)

    async def series(
        self,
        *,
        from_ms: int | None = None,
        to_ms: int | None = None,
        step: int | None = None,
        unit: str | None = None,
        mechanism: str | None = None,
        subject_class: str | None = None,
    ) -> dict[str, Any]:
        """What was committed and reserved over time. `step`: 60, 600, 3600, 21600 or 86400 seconds."""
        params = {"from": from_ms, "to": to_ms, "class": subject_class}
        return await self._connection.json(get("/budget/series", step=step, unit=unit, mechanism=mechanism, **params))

    async def estimate(self, request: Mapping[str, Any]) -> CostEstimate:
        """What a charging request would cost, by the members of any of them. Texts are counted, not read."""
        return await self._connection.model(CostEstimate, post("/budget/estimate", request))

    async def forecast(self, account: str) -> dict[str, Any]:
        """When the account runs out: an estimate, with a band."""
        return await self._connection.json(get(f"/budget/{account}/forecast"))

    async def bounds(self, account: str) -> dict[str, Any]:
        """What is proven of an account, and what is an estimate."""
        return await self._connection.json(get(f"/budget/{account}/bounds"))

    async def spending(
        self,
        account: str,
        *,
        by: str | None = None,
        bucket: str | None = None,
        from_ms: int | None = None,
        to_ms: int | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> dict[str, Any]:
        """Who spent: by mechanism, route, key or subject, over time. One page."""
        times = {"from": from_ms, "to": to_ms}
        path = f"/budget/{account}/spending"
        return await self._connection.json(get(path, by=by, bucket=bucket, cursor=cursor, limit=limit, **times))

    async def integrity(self) -> dict[str, Any]:
        """Seals, open holds, epsilon spent without output, and the last audit."""
        return await self._connection.json(get("/budget/integrity"))

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """An item for each event that says that the tenant's budget has changed, until the stream ends.

        Raises Unauthorized when the key is revoked or expires.
        """
        async with await self._connection.stream(get("/budget/events")) as answer:
            async for event in answer.events():
                if event.name == "problem":
                    raise line_problem(parsed_json(event.data))
                yield parsed_json(event.data)


RECOGNISERS = "/sanitize/recognisers"
CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
RESPONSE_TOKENS, MESSAGE_TOKENS = "/v1/responses/input_tokens", "/v1/messages/count_tokens"


class Catalogue(MethodGroup):
    """What `sanitize` can find, and the operator's policies."""

    async def entities(self) -> dict[str, Any]:
        """What the technique `entity` recognises, and its profiles."""
        return await self._connection.json(get("/entities"))

    async def policies(self) -> list[dict[str, Any]]:
        """The operator's policies that the tenant may name, or must use."""
        return await self._connection.rows(get("/policies"), "policies")

    async def masking_counts(self, *, days: int | None = None) -> list[dict[str, Any]]:
        """What masking did in the last days, by API key and model: requests, refusals, finds by type."""
        return await self._connection.rows(get("/masking/counts", days=days), "rows")


class Models(MethodGroup):
    """Models, presets and projections."""

    async def delete_fine_tuned(self, name: str) -> None:
        """Delete a fine-tuned model of the tenant."""
        await self._connection.delete(f"/models/fine-tuned/{name}")

    async def predict(
        self, name: str, texts: Sequence[str] | str, *, text_pairs: Sequence[str] | str | None = None
    ) -> Predictions:
        """The label and the scores of each text by a classifier that the tenant has fine-tuned. Costs no budget.

        text_pairs: the second text of each row, for a classifier of pairs.
        """
        found = texts_of("texts", texts)
        seconds = None if text_pairs is None else texts_of("text_pairs", text_pairs)
        if seconds is not None and len(seconds) != len(found):
            raise InvalidRequest((FieldError("text_pairs", "give as many as texts; nothing was sent"),))
        limits = self._connection.limits
        weights = [len(json_of(row)) for row in zip(found, seconds or found, strict=True)]
        answers = []
        for part in ranges(weights, items=limits.vector_texts, weight=limits.body_bytes * 3 // 4) or [range(0)]:
            body = {"texts": found[part.start : part.stop]}
            if seconds is not None:
                body["text_pairs"] = seconds[part.start : part.stop]
            with numbered(part):
                answers.append(await self._connection.model(Predictions, post(f"/finetuned/{name}/predict", body)))
        rows = [row for answer in answers for row in answer.data]
        for index, row in enumerate(rows):
            row.index = index
        return answers[0].model_copy(update={"data": rows})

    async def classifiers(self) -> list[dict[str, Any]]:
        """The classifiers that the tenant has fine-tuned."""
        return await self._connection.rows(get("/finetuned"), "classifiers")

    async def delete_classifier(self, name: str) -> None:
        """Delete a classifier of the tenant."""
        await self._connection.delete(f"/finetuned/{name}")

    async def projection(self, kind: str, dimension: int, output_dimension: int) -> tuple[Any, float]:
        """The public matrix `[output_dimension, dimension]` of the tenant's releases, and its stretch.

        kind: `orthonormal`, `gaussian` or `pca`.
        """
        path = f"/models/projections/{kind}-{dimension}-{output_dimension}"
        tensor = Tensor((await self._connection.call(get(path))).content, "projection")
        return matrix_of(tensor.kind, tensor.shape, [tensor.numbers]), float(tensor.metadata.get("stretch", 1.0))

    async def presets(self) -> list[dict[str, Any]]:
        """The presets and language models of `/v1`."""
        return await self._connection.rows(get("/v1/models"), "data")

    async def preset(self, model: str) -> dict[str, Any]:
        """One preset or language model of `/v1`."""
        return await self._connection.json(get(f"/v1/models/{model}"))

    # stands last: after it, `list` in an annotation would be this method
    async def list(self) -> dict[str, Any]:
        """The models that run, and the tenant's fine-tuned ones."""
        return await self._connection.json(get("/models"))


class Domains(MethodGroup):
    """Domain packs."""

    async def list(self) -> list[dict[str, Any]]:
        """The domain packs that the tenant may name."""
        return await self._connection.rows(get("/domains"), "domains")

    async def delete(self, name: str) -> None:
        """Delete a domain of the tenant."""
        await self._connection.delete(f"/domains/{name}")


class Recognisers(MethodGroup):
    """The tenant's own recognisers."""

    def list(self, *, limit: int | None = None) -> AsyncIterator[RecogniserRow]:
        """Every recogniser; patterns and terms as their numbers."""
        return self._connection.pages(RECOGNISERS, "recognisers", RecogniserRow, limit=limit)

    async def get(self, name: str) -> StoredRecogniser:
        """One recogniser with its patterns and terms."""
        return await self._connection.model(StoredRecogniser, get(f"{RECOGNISERS}/{name}"))

    async def put(self, name: str, recogniser: Mapping[str, Any]) -> RecogniserFacts:
        """Create or replace a recogniser."""
        return await self._connection.model(RecogniserFacts, put(f"{RECOGNISERS}/{name}", recogniser))

    async def delete(self, name: str) -> None:
        """Delete a recogniser."""
        await self._connection.delete(f"{RECOGNISERS}/{name}")

    async def try_out(
        self, recogniser: Mapping[str, Any], text: str, *, threshold: float | None = None
    ) -> dict[str, Any]:
        """What a recogniser finds in a text, without storing either."""
        members = given({"recogniser": recogniser, "text": text, "threshold": threshold})
        return await self._connection.json(post(f"{RECOGNISERS}/test", members))


class Accounting(MethodGroup):
    """Calculations over plans."""

    async def compare(self, mechanism: Mapping[str, Any], *, delta: float, steps: int = 1) -> dict[str, Any]:
        """Every accountant's epsilon of a plan.

        mechanism: such as `{"kind": "gaussian", "noise_multiplier": 1.1}`.
        """
        members = {"mechanism": mechanism, "delta": delta, "steps": steps}
        return await self._connection.json(post("/accounting/compare", members))

    async def calibrate(
        self,
        *,
        epsilon: float,
        delta: float,
        sampling_rate: float = 1.0,
        epoch_steps: int | None = None,
        steps: int | None = None,
        noise_multiplier: float | None = None,
    ) -> dict[str, Any]:
        """The least noise for a number of steps, or the most steps for a noise. Give exactly one of the two.

        epoch_steps: for the noise of random allocation, which has no sampling rate: the steps of an epoch.
        """
        members: dict[str, Any] = {"target": {"epsilon": epsilon, "delta": delta}, "sampling_rate": sampling_rate}
        members |= given({"epoch_steps": epoch_steps, "steps": steps, "noise_multiplier": noise_multiplier})
        return await self._connection.json(post("/accounting/calibrate", members))


class LanguageModels(MethodGroup):
    """Language models behind the gateway, in the formats of OpenAI and Anthropic.

    The gateway masks the request and restores the answer. A call is not repeated once it was sent, because the model
    may have been paid.
    """

    async def chat_completions(
        self, request: Mapping[str, Any], *, policy: str | None = None, conversation: str | None = None
    ) -> dict[str, Any]:
        """`POST /v1/chat/completions`: the members of OpenAI's request."""
        return await self._connection.json(_to_model(CHAT, request, policy, conversation))

    async def responses(
        self, request: Mapping[str, Any], *, policy: str | None = None, conversation: str | None = None
    ) -> dict[str, Any]:
        """`POST /v1/responses`: the members of OpenAI's request."""
        return await self._connection.json(_to_model(RESPONSES, request, policy, conversation))

    async def messages(
        self, request: Mapping[str, Any], *, policy: str | None = None, conversation: str | None = None
    ) -> dict[str, Any]:
        """`POST /v1/messages`: the members of Anthropic's request."""
        return await self._connection.json(_to_model(MESSAGES, request, policy, conversation))

    async def count_response_tokens(
        self, request: Mapping[str, Any], *, policy: str | None = None, conversation: str | None = None
    ) -> dict[str, Any]:
        """`POST /v1/responses/input_tokens`: how many tokens the upstream counts in what would leave."""
        return await self._connection.json(_to_model(RESPONSE_TOKENS, request, policy, conversation))

    async def count_message_tokens(
        self, request: Mapping[str, Any], *, policy: str | None = None, conversation: str | None = None
    ) -> dict[str, Any]:
        """`POST /v1/messages/count_tokens`: how many tokens the upstream counts in what would leave."""
        return await self._connection.json(_to_model(MESSAGE_TOKENS, request, policy, conversation))

    async def stream(
        self, path: str, request: Mapping[str, Any], *, policy: str | None = None, conversation: str | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        """The events of one of the three paths, with `"stream": true`: the data of each, parsed."""
        streamed = _to_model(path, {**request, "stream": True}, policy, conversation)
        async with await self._connection.stream(streamed) as answer:
            async for event in answer.events():
                if event.data != "[DONE]":
                    yield parsed_json(event.data)


def _to_model(path: str, request: Mapping[str, Any], policy: str | None, conversation: str | None) -> Outgoing:
    headers = JSON_HEADERS | given({"Privacy-Policy": policy, "Privacy-Conversation": conversation})
    return Outgoing("POST", path, headers=headers, content=json_of(dict(request)), repeatable=False)


class Presidio(MethodGroup):
    """Personal data by Presidio's contracts, and LiteLLM's guardrail; answers as these contracts have them."""

    async def analyze(self, /, text: str | Sequence[str], *, language: str = "en", **members: Any) -> Any:
        """Find personal data. `members`: those of Presidio's request."""
        return await self._connection.json(post("/analyze", {"text": text, "language": language, **members}))

    async def anonymize(self, request: Mapping[str, Any]) -> Any:
        """Replace finds in texts."""
        return await self._connection.json(post("/anonymize", request))

    async def deanonymize(self, request: Mapping[str, Any]) -> Any:
        """Decrypt places of texts."""
        return await self._connection.json(post("/deanonymize", request))

    async def supported_entities(self, *, language: str | None = None) -> Any:
        """The types that `analyze` finds."""
        return await self._connection.json(get("/supportedentities", language=language))

    async def recognizers(self, *, language: str | None = None) -> Any:
        """The recognisers of `analyze`."""
        return await self._connection.json(get("/recognizers", language=language))

    async def anonymizers(self) -> Any:
        """The operators of `anonymize`."""
        return await self._connection.json(get("/anonymizers"))

    async def deanonymizers(self) -> Any:
        """The operators of `deanonymize`."""
        return await self._connection.json(get("/deanonymizers"))

    async def guardrail(self, request: Mapping[str, Any]) -> Any:
        """Mask a request of LiteLLM, or restore its answer."""
        return await self._connection.json(post("/beta/litellm_basic_guardrail_api", request, repeatable=False))


class Vault(MethodGroup):
    """Entries of the tenant in the vault."""

    def entries(self, *, limit: int | None = None) -> AsyncIterator[dict[str, Any]]:
        """The entries of the vault of the tenant."""
        return self._connection.pages("/vault", "data", None, limit=limit)

    async def delete(self, entry_id: str) -> None:
        """Delete an entry."""
        await self._connection.delete(f"/vault/{entry_id}")

    async def clear(self) -> None:
        """Delete all entries of the tenant."""
        await self._connection.delete("/vault")


class Health(MethodGroup):
    """Liveness, readiness and metrics."""

    async def live(self) -> bool:
        """Whether the gateway's process answers."""
        return (await self._connection.json(get("/livez"))).get("status") == "alive"

    async def ready(self) -> dict[str, Any]:
        """The state of the workers. Raises NotStarted while the gateway is not ready, without trying again."""
        once = replace(self._connection.retry, attempts=1)
        state: dict[str, Any] = parsed_json((await self._connection.call(get("/readyz"), retry=once)).content)
        return state

    async def metrics(self) -> str:
        """The metrics of the gateway, in Prometheus' format. With the admin key."""
        return (await self._connection.call(get("/metrics"))).content.decode()


class Keys(MethodGroup):
    """The tenant's API keys."""

    async def list(self) -> list[KeyFacts]:
        """The keys of the tenant. The API key needs the role `admin`, as for the calls below."""
        return await self._connection.rows_as(KeyFacts, get("/keys"), "keys")

    async def create(self, **options: Unpack[KeyOptions]) -> KeySecret:
        """Make a key; its `key` is shown this once."""
        return await self._connection.model(KeySecret, post("/keys", checked(KeyOptions, options), repeatable=False))

    async def rotate(self, key_id: str, *, overlap_s: int, expires_s: int | None = None) -> KeySecret:
        """Make a successor; the old key ends after `overlap_s` seconds."""
        return await self._connection.model(KeySecret, _rotation(f"/keys/{key_id}", overlap_s, expires_s))

    async def revoke(self, key_id: str) -> KeyFacts:
        """End a key at once."""
        return await self._connection.model(KeyFacts, Outgoing("DELETE", f"/keys/{key_id}"))


class Alerts(MethodGroup):
    """Alerts of the tenant, or with the admin key of the operator."""

    def __init__(self, connection: Connection, path: str = "/alerts") -> None:
        super().__init__(connection)
        self._path = path

    def fired(self, *, status: str | None = None, limit: int | None = None) -> AsyncIterator[dict[str, Any]]:
        """The alerts that fired, newest first."""
        return self._connection.pages(self._path, "alerts", None, status=status, limit=limit)

    async def rules(self) -> list[AlertRule]:
        """The rules. The API key needs the role `admin`, as for the calls below."""
        return await self._connection.rows_as(AlertRule, get(f"{self._path}/rules"), "rules")

    async def rule(self, name: str) -> AlertRule:
        """One rule, and its last delivery."""
        return await self._connection.model(AlertRule, get(f"{self._path}/rules/{name}"))

    async def put_rule(self, name: str, rule: Mapping[str, Any]) -> AlertRule:
        """Store a rule. The answer shows the secret of a new webhook once."""
        return await self._connection.model(AlertRule, put(f"{self._path}/rules/{name}", rule, repeatable=False))

    async def delete_rule(self, name: str) -> None:
        """Delete a rule."""
        await self._connection.delete(f"{self._path}/rules/{name}")

    async def send_sample(self, name: str) -> dict[str, str]:
        """Send a sample to the receivers of a rule: the result of each channel."""
        return await self._connection.json(post(f"{self._path}/rules/{name}/test", repeatable=False))


class Admin(MethodGroup):
    """Administration, with the admin key."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.alerts = Alerts(connection, "/admin/alerts")

    async def tenants(self) -> list[dict[str, Any]]:
        """Every tenant."""
        return await self._connection.rows(get("/admin/tenants"), "tenants")

    async def create_tenant(self, name: str, *, epsilon: float, **options: Unpack[TenantOptions]) -> TenantKey:
        """Open a tenant with a budget; its first key is shown this once."""
        members = {"name": name, "epsilon": epsilon, **checked(TenantOptions, options)}
        return await self._connection.model(TenantKey, post("/admin/tenants", members, repeatable=False))

    def budgets(self, tenant: str, *, limit: int | None = None) -> AsyncIterator[Account]:
        """The accounts of a tenant."""
        return self._connection.pages(f"/admin/tenants/{tenant}/budgets", "accounts", Account, limit=limit)

    async def set_limit(self, tenant: str, unit: str, *, epsilon: float) -> Account:
        """Raise or lower what the account of a unit may spend, at most the epsilon that it was opened with."""
        request = put(f"/admin/tenants/{tenant}/budgets/{unit}/limit", {"epsilon": epsilon})
        return await self._connection.model(Account, request)

    async def limit_effect(self, tenant: str, unit: str, *, epsilon: float) -> dict[str, Any]:
        """What another limit of the account of a unit would refuse; nothing is changed."""
        return await self._connection.json(get(f"/admin/tenants/{tenant}/budgets/{unit}/limit", epsilon=epsilon))

    async def set_state(self, tenant: str, state: str, *, reason: str) -> dict[str, Any]:
        """Make a tenant `suspended`, `active` again, or `closed` for good."""
        return await self._connection.json(put(f"/admin/tenants/{tenant}/state", {"state": state, "reason": reason}))

    async def outlook(self, *, cursor: str | None = None, limit: int | None = None) -> dict[str, Any]:
        """Spending, forecast and refusals of every tenant, one page."""
        return await self._connection.json(get("/admin/outlook", cursor=cursor, limit=limit))

    async def statement(self, tenant: str, *, from_ms: int | None = None, to_ms: int | None = None) -> dict[str, Any]:
        """The signed statement of a tenant and period, for an auditor."""
        period = {"from": from_ms, "to": to_ms}
        return await self._connection.json(get(f"/admin/tenants/{tenant}/statement", **period))

    async def start_audit(self) -> dict[str, Any]:
        """Begin an audit of the whole ledger."""
        return await self._connection.json(post("/admin/integrity/audit"))

    async def keys(self, tenant: str) -> list[KeyFacts]:
        """The keys of a tenant."""
        return await self._connection.rows_as(KeyFacts, get(f"/admin/tenants/{tenant}/keys"), "keys")

    async def create_key(self, tenant: str, **options: Unpack[KeyOptions]) -> KeySecret:
        """Make a key of a tenant."""
        request = post(f"/admin/tenants/{tenant}/keys", checked(KeyOptions, options), repeatable=False)
        return await self._connection.model(KeySecret, request)

    async def rotate_key(self, tenant: str, key_id: str, *, overlap_s: int, expires_s: int | None = None) -> KeySecret:
        """Make a successor of a tenant's key."""
        request = _rotation(f"/admin/tenants/{tenant}/keys/{key_id}", overlap_s, expires_s)
        return await self._connection.model(KeySecret, request)

    async def revoke_key(self, tenant: str, key_id: str) -> KeyFacts:
        """End a key of a tenant at once."""
        return await self._connection.model(KeyFacts, Outgoing("DELETE", f"/admin/tenants/{tenant}/keys/{key_id}"))

    async def end_sessions(self, tenant: str | None = None) -> None:
        """End every session of the dashboard for a tenant; without one, those of the operator."""
        path = "/admin/sessions/end" if tenant is None else f"/admin/tenants/{tenant}/sessions/end"
        await self._connection.call(post(path))

    def audit(self, *, limit: int | None = None) -> AsyncIterator[dict[str, Any]]:
        """The entries of the log of administrative actions."""
        return self._connection.pages("/admin/audit", "entries", None, limit=limit)

    async def integrity(self, *, cursor: str | None = None, limit: int | None = None) -> dict[str, Any]:
        """The integrity of every tenant, one page."""
        return await self._connection.json(get("/admin/integrity", cursor=cursor, limit=limit))

    async def service(self) -> dict[str, Any]:
        """Workers, queues, throughput, latency and errors since the gateway's start."""
        return await self._connection.json(get("/admin/service"))


def _rotation(key_path: str, overlap_s: int, expires_s: int | None) -> Outgoing:
    return post(f"{key_path}/rotate", given({"overlap_s": overlap_s, "expires_s": expires_s}), repeatable=False)


class AsyncGateway(Embedding, Sanitizing, Submission, Catalogue):
    """A client of the gateway at `base_url`, for one API key.

    `Gateway` blocks; several threads may share it. `AsyncGateway` has the same methods for `await`, and `async for`
    where a method yields several things; in another event loop it opens other connections. Close the client, or use it
    by `with` or `async with`.

    settings: see `options.ClientSettings`.
    """

    def __init__(self, base_url: str, api_key: str, **settings: Unpack[ClientSettings]) -> None:
        checked(ClientSettings, settings)
        connection = Connection(base_url, api_key, settings)
        super().__init__(connection)
        self.budget = Budget(connection)
        self.jobs = Jobs(connection)
        self.models = Models(connection)
        self.domains = Domains(connection)
        self.recognisers = Recognisers(connection)
        self.accounting = Accounting(connection)
        self.keys = Keys(connection)
        self.language_models = LanguageModels(connection)
        self.health = Health(connection)
        self.alerts = Alerts(connection)
        self.presidio = Presidio(connection)
        self.vault = Vault(connection)
        self.admin = Admin(connection)

    def budget_cap(self, epsilon: float) -> BudgetCap:
        """A context manager that refuses what would charge more than `epsilon` in its block, before it is sent."""
        return BudgetCap(epsilon)

    async def close(self) -> None:
        """Close the connections to the gateway."""
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __getstate__(self) -> object:
        raise TypeError("a client is not pickled, since it holds the API key; pass a function that makes one instead")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._connection.gateway!r})"
