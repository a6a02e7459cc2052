"""Bodies of the OpenAI-compatible endpoints."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from service.http.strict import Strict


class EmbeddingsRequest(Strict):
    """Body of `POST /v1/embeddings`."""

    model: str = Field(description="A preset; GET /v1/models lists them.")
    input: str | list[str] | list[int] | list[list[int]]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = Field(None, description="The preset's own dimension, or nothing.")
    user: str | None = Field(None, min_length=1, max_length=256)
