"""`POST /embed/vector`: private release of texts' embeddings or of the caller's own vectors, as JSON or as a file.

Guarantee: `privemb` and `laplace` are metric-DP, epsilon per unit of Euclidean distance; `privunit` and `codebook` are
pure epsilon-DP for replacing a vector by any other. Each vector is one unit.
"""

from __future__ import annotations

import base64
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import Field, ValidationError, model_validator
from starlette.exceptions import HTTPException

from core.errors import InvalidInput
from gpu_workers.engine.arrays import Array, BlockArray
from service import metrics
from service.auth import Caller, require_tenant
from service.body import JsonRoute
from service.house import House, house
from service.middleware import VECTOR_FILE_PATH
from service.release import ReleaseRequest, Rendered, release
from service.tensors import HEADER_BYTES_MAX, MEDIA_TYPE, MatrixHeader, header_of, read_header
from service.upload import Upload, receive
from service.vectors import (
    VectorBatch,
    VectorParameters,
    VectorPrice,
    file_batch,
    rows_dimension,
    text_batch,
    vector_batch,
    vector_price,
    vector_release,
)

router = APIRouter(route_class=JsonRoute, tags=["embeddings"])

_ASKED = "request"  # the file's metadata that holds the parameters
_MEDIA_TYPES = (MEDIA_TYPE, "application/octet-stream")

Who = Annotated[Caller, Depends(require_tenant)]
Here = Annotated[House, Depends(house)]


class VectorRequest(VectorParameters):
    """Body of `POST /embed/vector`, and of `POST /budget/estimate` for its price."""

    texts: list[str] | None = Field(None, min_length=1)
    vectors: list[list[float]] | None = Field(None, min_length=1)
    encoding_format: Literal["float", "base64"] = "float"

    @model_validator(mode="after")
    def _one_form(self) -> VectorRequest:
        if (self.texts is None) == (self.vectors is None):
            raise ValueError("give exactly one of texts and vectors")
        return self

    @property
    def rows(self) -> int:
        return len(self.texts or self.vectors or ())


class FileRequest(VectorParameters):
    """The parameters of a file, as JSON in its metadata."""

    output_dtype: Literal["float32", "float16"] = "float32"


async def price(body: VectorRequest, here: House, tenant: str) -> VectorPrice:
    """What each vector costs. Raises InvalidInput, WorkerCold."""
    dimension = None if body.vectors is None else rows_dimension(body.vectors)
    return await vector_price(here, tenant=tenant, params=body, rows=body.rows, dimension=dimension)


@router.post("/embed/vector", summary="Private vectors, from texts or vectors")
async def embed_vector(body: VectorRequest, request: Request, caller: Who, here: Here) -> Response:
    cost = await price(body, here, caller.tenant)
    return await release(here, request, caller, release_of(body, cost, caller.tenant, here))


def release_of(body: VectorRequest, cost: VectorPrice, tenant: str, here: House) -> ReleaseRequest:
    """What `body` asks for at its price. Raises as `vector_batch`, `text_batch` and `vector_release` do."""
    if body.vectors is not None:
        batch = vector_batch(here, body.vectors, cost.spec)
    else:
        batch = text_batch(body.texts or (), here.settings)

    def render(released: Array, common: dict[str, Any]) -> Rendered:
        rows = [_shown(row, body.encoding_format) for row in released]
        return {
            "model": None if body.texts is None else here.encoder_name,
            "dimension": cost.spec.output_dimension,
            "data": [{"index": index, "embedding": row} for index, row in enumerate(rows)],
            **common,
            "usage": _usage(batch),
        }

    return vector_release(here, tenant=tenant, price=cost, batch=batch, subject=body.subject, render=render)


def _shown(row: Array, encoding_format: str) -> Array | str:
    return base64.b64encode(row.tobytes()).decode() if encoding_format == "base64" else row


def _usage(batch: VectorBatch) -> dict[str, int]:
    return {"vectors": batch.rows}


@router.post(
    VECTOR_FILE_PATH,
    summary="Private vectors, a safetensors file in and out",
    response_class=Response,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                MEDIA_TYPE: {
                    "schema": {
                        "type": "string",
                        "format": "binary",
                        "description": "One tensor `vectors`; the metadata `request` holds the parameters as JSON.",
                    }
                }
            },
        }
    },
)
async def embed_vector_file(request: Request, caller: Who, here: Here) -> Response:
    """The answer's one tensor is `embeddings`; its metadata hold `privacy`, `budget` and `usage` as JSON."""
    if request.headers.get("content-type", "").split(";", 1)[0].strip().lower() not in _MEDIA_TYPES:
        raise HTTPException(415)
    tag = here.master_key.body_tag(tenant=caller.tenant, route=VECTOR_FILE_PATH)
    with metrics.stage("receive"):
        upload = await receive(request, here.engine.arrays, tag, bytes_max=here.settings.vectors_bytes_max)
    header = _header(upload)
    params = _parameters(header)
    rows, dimension = header.shape
    cost = await vector_price(here, tenant=caller.tenant, params=params, rows=rows, dimension=dimension)
    vectors = BlockArray(upload.block, header.dtype, header.shape, header.offset)
    with metrics.stage("check"):
        batch = await file_batch(vectors)

    def render(released: Array, common: dict[str, Any]) -> Rendered:
        facts = {name: orjson.dumps(block).decode() for name, block in (common | {"usage": _usage(batch)}).items()}
        start = header_of(params.output_dtype, released.shape, tensor="embeddings", metadata=facts)
        return [start, released.reshape(-1).view("u1").data]

    release_request = vector_release(
        here,
        tenant=caller.tenant,
        price=cost,
        batch=batch,
        subject=params.subject,
        render=render,
        dtype=params.output_dtype,
        media_type=MEDIA_TYPE,
        fingerprint=upload.tag,
    )
    return await release(here, request, caller, release_request)


def _header(upload: Upload) -> MatrixHeader:
    start = bytes(upload.block.view(min(upload.size, HEADER_BYTES_MAX + 8)))
    return read_header(start, size=upload.size, tensor="vectors")


def _parameters(header: MatrixHeader) -> FileRequest:
    """Raises InvalidInput without parameters, RequestValidationError for wrong ones."""
    if set(header.metadata) != {_ASKED}:
        raise InvalidInput("the file's metadata must be `request` alone, the parameters as JSON", field=_ASKED)
    try:
        return FileRequest.model_validate(orjson.loads(header.metadata[_ASKED]))
    except orjson.JSONDecodeError:
        raise InvalidInput("the parameters are not JSON", field=_ASKED) from None
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        raise RequestValidationError([entry | {"loc": (_ASKED, *entry["loc"])} for entry in found]) from None
