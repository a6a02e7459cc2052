"""Bodies of `POST /embed/vector` and the parameters of its files."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from core.mechanisms.vectors.spec import VECTOR_MECHANISMS
from service.config.settings import TEXTS_TAKEN, VECTORS_TAKEN
from service.http.choices import Projection, VectorMechanism
from service.http.strict import AtMost, Strict, Vector, exactly_one_of


class VectorParameters(Strict):
    """How vectors are released: the members that every body shares."""

    epsilon: float = Field(
        gt=0, description="Of each vector: per unit of distance for privemb and laplace, in total for the others."
    )
    mechanism: VectorMechanism | None = Field(None, description="Default: codebook for texts, privemb for vectors.")
    dimension: int | None = Field(None, ge=1, description="Of the released vectors.")
    clip_norm: float | None = Field(None, gt=0, description="Longer vectors are clipped to it; default 1.")
    projection: Projection | None = Field(
        None, description="Default: by mechanism; pca for texts whose mechanism is not named."
    )
    strict: bool = Field(True, description="false: the paper's form of privemb, which `beta` and `delta` describe.")
    beta: float | None = None
    delta: float | None = None
    subject: str | None = Field(None, min_length=1, max_length=256)


class VectorRequest(VectorParameters):
    """Body of `POST /embed/vector`, and of `POST /budget/estimate` for its price."""

    texts: Annotated[list[str], AtMost(TEXTS_TAKEN)] | None = Field(None, min_length=1)
    vectors: Annotated[list[Vector], AtMost(VECTORS_TAKEN)] | None = Field(None, min_length=1)
    encoding_format: Literal["float", "base64"] = "float"

    _one_form = exactly_one_of("texts", "vectors")

    @property
    def size(self) -> int:
        """The characters of all texts, or the numbers of all vectors."""
        return sum(map(len, self.texts or self.vectors or ()))

    @property
    def rows(self) -> int:
        return len(self.texts or self.vectors or ())


class FileParameters(VectorParameters):
    """The parameters of a file, as JSON in its metadata."""

    output_dtype: Literal["float32", "float16"] = "float32"


def typical(epsilon: float) -> list[VectorRequest]:
    """One text by each mechanism."""
    return [VectorRequest(texts=["-"], epsilon=epsilon, mechanism=name) for name in VECTOR_MECHANISMS]
