"""Presets as OpenAI models: the bodies of `/v1/embeddings`, and the release that a preset makes of one."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, NotRequired

from pydantic import BeforeValidator, Discriminator, Field, Tag
from pydantic_core import PydanticKnownError
from typing_extensions import TypedDict

from core.errors import InvalidInput, UnknownName
from service.config.settings import TEXTS_TAKEN, Settings
from service.http.answers import doc
from service.http.strict import AtMost, Strict
from service.openai.presets import Preset, SentDPPreset, VectorPreset
from service.proxy.upstreams import ServedModel, Upstreams
from service.releases.answers import Account, Privacy
from service.releases.request import Price, ReleaseRequest
from service.sentdp.service import DocumentBody, SentDPRequest, SentDPService
from service.vectors.service import VectorRequest, VectorService


def _shape(value: Any) -> str | None:
    """The shape of `input`, from the type of its value and of the first item alone; None for no shape at all."""
    if isinstance(value, str):
        return "text"
    if not isinstance(value, list):
        return None
    first = value[0] if value else ""
    return "texts" if isinstance(first, str) else "token_arrays" if isinstance(first, list) else "tokens"


def _few(value: Any) -> Any:
    """`input`, unless it has more texts than a call may have."""
    inputs_max = Settings.embedded_texts_max
    if _shape(value) in ("texts", "token_arrays") and len(value) > inputs_max:
        raise PydanticKnownError(
            "too_long", {"field_type": "List", "max_length": inputs_max, "actual_length": len(value)}
        )
    return value


Tokens = Annotated[list[int], AtMost(TEXTS_TAKEN)]
# Discriminated: a union would validate a list once for each of its shapes.
Input = Annotated[
    Annotated[str, Tag("text")]
    | Annotated[list[str], AtMost(Settings.embedded_texts_max), Tag("texts")]
    | Annotated[Tokens, Tag("tokens")]
    | Annotated[list[Tokens], AtMost(Settings.embedded_texts_max), Tag("token_arrays")],
    Discriminator(_shape),
    BeforeValidator(_few),
]


class EmbeddingsRequest(Strict):
    """Body of `POST /v1/embeddings`."""

    model: str = Field(description="A preset; GET /v1/models lists them.")
    input: Input
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = Field(None, description="The preset's own dimension, or nothing.")
    user: str | None = Field(None, min_length=1, max_length=256)

    @property
    def size(self) -> int:
        """The number of inputs."""
        return 1 if isinstance(self.input, str) else len(self.input)


class OpenAIVector(TypedDict):
    """A released vector, in OpenAI's shape."""

    object: Annotated[str, doc("Always `embedding`.")]
    index: Annotated[int, doc("The place of the text in `input`, from 0.")]
    embedding: Annotated[list[float] | str, doc("The vector; as base64 of float32, little-endian, where asked for.")]
    space: NotRequired[Annotated[str, doc("The space of the vector; of a preset of documents.")]]
    domain: NotRequired[Annotated[str, doc("The domain that the gateway chose; with the domain `auto`.")]]
    sentences: NotRequired[Annotated[int, doc("How many sentences; of a preset of documents.")]]
    windows: NotRequired[Annotated[int, doc("How many windows; of a preset with windows of words.")]]
    utility: NotRequired[Annotated[str, doc("`low` for a document of few sentences, else absent.")]]
    reused_from: NotRequired[Annotated[str, doc("The earlier release that answers it; where releases are reused.")]]


class OpenAIUsage(TypedDict):
    """Always 0: the number of tokens would be a fact of the text beside the release."""

    prompt_tokens: Annotated[int, doc("Always 0.")]
    total_tokens: Annotated[int, doc("Always 0.")]


class OpenAIEmbeddings(TypedDict):
    """Released vectors, in OpenAI's shape, with the guarantee and the account."""

    object: Annotated[str, doc("Always `list`.")]
    data: Annotated[list[OpenAIVector], doc("A row for each text, in their order.")]
    model: Annotated[str, doc("The preset.")]
    usage: Annotated[OpenAIUsage, doc("Always 0.")]
    privacy: Annotated[Privacy, doc("The guarantee of each text.")]
    budget: Annotated[Account, doc("The account with the least left of those that paid.")]


class OpenAIModel(TypedDict):
    """A preset, or a model of an upstream."""

    id: Annotated[str, doc("The name that a request gives as `model`.")]
    object: Annotated[str, doc("Always `model`.")]
    created: Annotated[int, doc("Always 0.")]
    owned_by: Annotated[str, doc("`privacy-gateway`, or the name of the upstream.")]
    preset: NotRequired[Annotated[dict[str, Any], doc("What the preset does; of a preset.")]]
    format: NotRequired[Annotated[str, doc("`openai` or `anthropic`; of a model of an upstream.")]]


class OpenAIModels(TypedDict):
    """The presets, and the models of upstreams."""

    object: Annotated[str, doc("Always `list`.")]
    data: Annotated[list[OpenAIModel], doc("The models.")]


class OpenAIService:
    """Serves the operator's presets."""

    def __init__(
        self, presets: Mapping[str, Preset], *, sentdp: SentDPService, vectors: VectorService, upstreams: Upstreams
    ) -> None:
        self._presets = presets
        self._sentdp = sentdp
        self._vectors = vectors
        self._upstreams = upstreams

    def models(self, tenant: str) -> list[OpenAIModel]:
        """Every preset, and every upstream's model that the tenant may call."""
        served = [_served(model) for model in self._upstreams.visible(tenant)]
        return [_model(name, preset) for name, preset in self._presets.items()] + served

    def model(self, name: str, tenant: str) -> OpenAIModel:
        """One of `models`. Raises UnknownName."""
        for each in self.models(tenant):
            if each["id"] == name:
                return each
        raise UnknownName(code="unknown-model")

    async def release_request(self, tenant: str, body: EmbeddingsRequest) -> ReleaseRequest:
        """The release of the preset's own endpoint, answered in OpenAI's shape.

        Raises UnknownName; InvalidInput with the field of `body` that the error comes from; as the endpoint's service.
        """
        preset = self._preset(body.model)
        try:
            if isinstance(preset, SentDPPreset):
                own = await self._sentdp_release(tenant, preset, body)
            else:
                own = await self._vector_release(tenant, preset, body)
        except InvalidInput as error:
            raise InvalidInput(error.detail, field=_field(error.field)) from None

        def render(results: list[Any], common: dict[str, Any]) -> dict[str, Any]:
            answer = own.render(results, common)
            if not isinstance(answer, dict):
                raise TypeError("a preset's endpoint answers in JSON")
            return {
                "object": "list",
                "data": [{"object": "embedding", **row} for row in answer["data"]],
                "model": body.model,
                "usage": {"prompt_tokens": 0, "total_tokens": 0},
                "privacy": answer["privacy"],
                "budget": answer["budget"],
            }

        return replace(own, render=render)

    @property
    def names(self) -> tuple[str, ...]:
        """The presets."""
        return tuple(self._presets)

    async def price(self, tenant: str, name: str) -> Price:
        """What one input costs by a preset, for no subject. Raises as the endpoint's service."""
        preset, body = self._preset(name), EmbeddingsRequest(model=name, input="-")
        if isinstance(preset, SentDPPreset):
            return await self._sentdp.price(tenant, _sentdp_body(preset, body, None))
        return await self._vectors.price(tenant, _vector_body(preset, body, None))

    async def _sentdp_release(self, tenant: str, preset: SentDPPreset, body: EmbeddingsRequest) -> ReleaseRequest:
        """A release with one document for each input."""
        own = _sentdp_body(preset, body, _subject(preset, body))
        if body.dimensions is not None:
            _check_dimensions(body, await self._sentdp.dimension(tenant, preset.domain))
        return await self._sentdp.release_request(tenant, own)

    async def _vector_release(self, tenant: str, preset: VectorPreset, body: EmbeddingsRequest) -> ReleaseRequest:
        """A release with one vector for each input."""
        own = _vector_body(preset, body, _subject(preset, body))
        price = await self._vectors.price_of_body(tenant, own)
        _check_dimensions(body, price.spec.output_dimension)
        return await self._vectors.release_at(tenant, own, price)

    def _preset(self, name: str) -> Preset:
        if name not in self._presets:
            raise UnknownName(code="unknown-model")
        return self._presets[name]


def texts(body: EmbeddingsRequest) -> list[str]:
    """The inputs. Raises InvalidInput for token arrays, for no input and for a blank one, which it names."""
    inputs = [body.input] if isinstance(body.input, str) else body.input
    if not inputs:
        raise InvalidInput("input must hold at least one text", field="input")
    found = [text for text in inputs if isinstance(text, str)]
    if len(found) < len(inputs):
        raise InvalidInput(
            "token arrays cannot be read: send text (LangChain: check_embedding_ctx_length=False)", field="input"
        )
    for index, text in enumerate(found):
        if not text.strip():
            raise InvalidInput("an input must hold something", field=f"input.{index}")
    return found


def _sentdp_body(preset: SentDPPreset, body: EmbeddingsRequest, subject: str | None) -> SentDPRequest:
    return SentDPRequest(
        documents=[DocumentBody(text=text) for text in texts(body)],
        epsilon=preset.epsilon,
        mechanism=preset.mechanism,
        domain=preset.domain,
        segmentation=preset.segmentation,
        window_words=preset.window_words,
        subject=subject,
        encoding_format=body.encoding_format or "float",
    )


def _vector_body(preset: VectorPreset, body: EmbeddingsRequest, subject: str | None) -> VectorRequest:
    return VectorRequest(
        texts=texts(body), subject=subject, encoding_format=body.encoding_format or "float", **preset.parameters()
    )


def _field(endpoint_field: str | None) -> str:
    """The field of this request that an endpoint's field comes from; `model` for what the preset sets."""
    first, dot, row = (endpoint_field or "").partition(".")
    if first in EmbeddingsRequest.model_fields:
        return f"{first}{dot}{row}"
    return f"input{dot}{row}" if first in ("documents", "texts") else "model"


def _check_dimensions(body: EmbeddingsRequest, dimension: int) -> None:
    if body.dimensions not in (None, dimension):
        raise InvalidInput(f"this model has {dimension} dimensions, and no other number", field="dimensions")


def _subject(preset: Preset, body: EmbeddingsRequest) -> str | None:
    if preset.subject == "required" and body.user is None:
        raise InvalidInput("this model needs `user`: whose text it is", field="user")
    return None if preset.subject == "none" else body.user


def _model(name: str, preset: Preset) -> OpenAIModel:
    return {"id": name, "object": "model", "created": 0, "owned_by": "privacy-gateway", "preset": preset.model_dump()}


def _served(model: ServedModel) -> OpenAIModel:
    kind = model.upstream.kind
    return {"id": model.name, "object": "model", "created": 0, "owned_by": model.upstream.name, "format": kind}
