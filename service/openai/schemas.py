"""Bodies of the OpenAI-compatible endpoints."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from service.config.settings import TEXTS_TAKEN
from service.http.strict import AtMost, Strict


def _shape(value: Any) -> str | None:
    """The shape of `input`, from the type of its value and of the first item alone; None for no shape at all."""
    if isinstance(value, str):
        return "text"
    if not isinstance(value, list):
        return None
    first = value[0] if value else ""
    return "texts" if isinstance(first, str) else "token_arrays" if isinstance(first, list) else "tokens"


Tokens = Annotated[list[int], AtMost(TEXTS_TAKEN)]
# Discriminated: a union would validate a list once for each of its shapes.
Input = Annotated[
    Annotated[str, Tag("text")]
    | Annotated[list[str], AtMost(TEXTS_TAKEN), Tag("texts")]
    | Annotated[Tokens, Tag("tokens")]
    | Annotated[list[Tokens], AtMost(TEXTS_TAKEN), Tag("token_arrays")],
    Discriminator(_shape),
]


class EmbeddingsRequest(Strict):
    """Body of `POST /v1/embeddings`."""

    model: str = Field(description="A preset; GET /v1/models lists them.")
    input: Input
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = Field(None, description="The preset's own dimension, or nothing.")
    user: str | None = Field(None, min_length=1, max_length=256)
