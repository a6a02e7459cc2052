"""`POST /embed/vector`: private release of texts' embeddings or of the caller's own vectors, as JSON or as a file.

The guarantee: `service/vectors/service.py`.
"""

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import orjson
from cryptography.hazmat.primitives.poly1305 import Poly1305
from fastapi import APIRouter, Path, Request, Response
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from core.errors import ClientGone, InvalidInput
from core.master_key import MasterKey
from core.mechanisms.vectors.spec import DIMENSION_MAX
from gpu_workers.engine.arrays import Array, ArrayPool, Block, BlockArray
from service import metrics
from service.accounting.calculations import Calculations
from service.capability import Capability, Estimated
from service.config.settings import Settings
from service.http.answers import IDEMPOTENT
from service.http.auth import ReadCallerDep, ReleaseCallerDep
from service.http.body import JsonRoute, take_large_place
from service.http.exchange import BuffersResponse
from service.http.middleware import VECTOR_FILE_PATH
from service.http.problems import documented
from service.http.strict import invalid_request, whole_number
from service.parts import Part, Parts
from service.preparation import Preparation
from service.releases.pipeline import ReleasePipeline
from service.releases.request import Rendered
from service.vectors.constructions import Constructions, Projections
from service.vectors.safetensors_header import HEADER_BYTES_MAX, MEDIA_TYPE, MatrixHeader, header_of, read_header
from service.vectors.service import FileParameters, PrivateVectors, VectorRequest, VectorService, file_batch, typical
from service.workers import Workers

router = APIRouter(route_class=JsonRoute, tags=["embeddings"])
projections_router = APIRouter(tags=["catalogue"])

_PARAMETERS = "request"  # the member of the file's metadata that holds them
_MEDIA_TYPES = (MEDIA_TYPE, "application/octet-stream")
_NOT_COMPUTED = "The projection or codebook was not computed in time, or the work did not finish in time."
_FILE_BODY = {
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

Dimension = Annotated[int, Path(ge=1, le=DIMENSION_MAX)]

_STEP_BYTES = 1024 * 1024  # passed to a thread at once


@dataclass(frozen=True)
class Upload:
    """A body of `size` bytes at the start of `block`. `tag` identifies its content (`MasterKey.body_tag`)."""

    block: Block
    size: int
    tag: bytes


async def receive(request: Request, pool: ArrayPool, tag: Poly1305, *, owner: str, bytes_max: int) -> Upload:
    """Receive the body. A thread stores and fingerprints each part while the next one arrives.

    The memory is counted as the body arrives, for `owner`: an announced length costs nothing. Raises QueueFull and
    TenantLimitReached if the pool has too little free memory, ClientGone. `BodyLimit` refuses a body above `bytes_max`,
    `BodyPace` one that arrives too slowly.
    """
    announced = whole_number(request.headers.get("content-length"))
    size_max = bytes_max if announced is None else min(announced, bytes_max)
    block, charge = pool.arriving(size_max, owner=owner)
    size = 0

    def take(chunks: list[bytes], offset: int) -> None:
        for chunk in chunks:
            block.write(chunk, offset)
            tag.update(chunk)
            offset += len(chunk)

    taking: asyncio.Future[None] | None = None
    waiting: list[bytes] = []
    waiting_bytes = 0
    try:
        async for chunk in request.stream():
            charge(len(chunk))
            waiting.append(chunk)
            waiting_bytes += len(chunk)
            if waiting_bytes >= _STEP_BYTES:
                if taking is not None:
                    await taking
                taking = asyncio.get_running_loop().run_in_executor(None, take, waiting, size)
                size += waiting_bytes
                waiting, waiting_bytes = [], 0
    except ClientDisconnect:
        raise ClientGone from None
    finally:
        if taking is not None:
            await taking
    take(waiting, size)
    return Upload(block, size + waiting_bytes, tag.finalize())


@router.post(
    "/embed/vector",
    summary="Private vectors, from texts or vectors",
    response_model=PrivateVectors,
    responses=documented(s504=_NOT_COMPUTED),
    openapi_extra=IDEMPOTENT,
)
async def embed_vector(
    body: VectorRequest,
    request: Request,
    caller: ReleaseCallerDep,
    vectors: Part[VectorService],
    releases: Part[ReleasePipeline],
) -> Response:
    await take_large_place(request, caller.tenant, texts=body.rows)
    return await releases.release(request, caller, await vectors.release_request(caller.tenant, body))


@router.post(
    VECTOR_FILE_PATH,
    summary="Private vectors, a safetensors file in and out",
    response_class=Response,
    responses=documented(s504=_NOT_COMPUTED),
    openapi_extra={"requestBody": _FILE_BODY, **IDEMPOTENT},
)
async def embed_vector_file(
    request: Request,
    caller: ReleaseCallerDep,
    vectors: Part[VectorService],
    releases: Part[ReleasePipeline],
    arrays: Part[ArrayPool],
    master_key: Part[MasterKey],
    settings: Part[Settings],
) -> Response:
    """The answer's one tensor is `embeddings`; its metadata hold `privacy`, `budget` and `usage` as JSON."""
    if request.headers.get("content-type", "").split(";", 1)[0].strip().lower() not in _MEDIA_TYPES:
        raise HTTPException(415)
    tag = master_key.body_tag(tenant=caller.tenant, route=VECTOR_FILE_PATH)
    with metrics.stage("receive"):
        upload = await receive(request, arrays, tag, owner=caller.tenant, bytes_max=settings.vectors_bytes_max)
    header = _header(upload)
    params = _parameters(header)
    rows, dimension = header.shape
    price = await vectors.vector_price(caller.tenant, params, rows=rows, dimension=dimension)
    price = await vectors.with_matrices(caller.tenant, price)
    with metrics.stage("check"):
        batch = await file_batch(BlockArray(upload.block, header.dtype, header.shape, header.offset))

    def render(released: Array, common: dict[str, Any]) -> Rendered:
        blocks = common | {"usage": batch.usage}
        metadata = {name: orjson.dumps(block).decode() for name, block in blocks.items()}
        start = header_of(params.output_dtype, released.shape, tensor="embeddings", metadata=metadata)
        return [start, released.reshape(-1).view("u1").data]

    release_request = vectors.batch_release(
        caller.tenant,
        price,
        batch,
        subject=params.subject,
        render=render,
        dtype=params.output_dtype,
        media_type=MEDIA_TYPE,
        fingerprint=upload.tag,
    )
    return await releases.release(request, caller, release_request)


def _header(upload: Upload) -> MatrixHeader:
    start = bytes(upload.block.view(min(upload.size, HEADER_BYTES_MAX + 8)))
    return read_header(start, size=upload.size, tensor="vectors")


def _parameters(header: MatrixHeader) -> FileParameters:
    """Raises InvalidInput without parameters, RequestValidationError for wrong ones."""
    if set(header.metadata) != {_PARAMETERS}:
        raise InvalidInput("the file's metadata must be `request` alone, the parameters as JSON", field=_PARAMETERS)
    try:
        return FileParameters.model_validate(orjson.loads(header.metadata[_PARAMETERS]))
    except orjson.JSONDecodeError:
        raise InvalidInput("the parameters are not JSON", field=_PARAMETERS) from None
    except ValidationError as error:
        raise invalid_request(error, _PARAMETERS) from None


@projections_router.get(
    "/models/projections/{kind}-{dimension}-{output_dimension}",
    summary="A public projection of private vectors, as a safetensors file",
    response_class=Response,
    responses={304: {"description": "`If-None-Match` names the file."}, **documented(s504=_NOT_COMPUTED)},
)
async def get_projection(
    request: Request,
    kind: Literal["orthonormal", "gaussian", "pca"],
    dimension: Dimension,
    output_dimension: Dimension,
    caller: ReadCallerDep,
    projections: Part[Projections],
) -> Response:
    """The principal axes (`pca`) are the same for every tenant, and their file has an `ETag`."""
    file = await projections.file(
        tenant=caller.tenant, kind=kind, dimension=dimension, output_dimension=output_dimension
    )
    headers = {} if file.etag is None else {"ETag": file.etag, "Cache-Control": "private, no-cache"}
    if file.etag is not None and file.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return BuffersResponse(file.buffers, media_type=MEDIA_TYPE, headers=headers, kept=file.projection)


def _constructions(parts: Parts) -> Constructions:
    return Constructions(
        parts[Calculations], parts[Preparation], parts[ArrayPool], bytes_max=parts[Settings].vector_matrices_bytes_max
    )


def _service(parts: Parts) -> VectorService:
    return VectorService(
        parts[Settings],
        workers=parts[Workers],
        projections=parts[Projections],
        constructions=parts[Constructions],
        arrays=parts[ArrayPool],
        preparation=parts[Preparation],
    )


CAPABILITY = Capability(
    name="vectors",
    routers=[router, projections_router],
    services={
        Constructions: _constructions,
        Projections: lambda parts: Projections(parts[Settings], parts[Constructions]),
        VectorService: _service,
    },
    prices=lambda parts: [
        Estimated("vector", VectorRequest, frozenset(), parts[VectorService], typical, "embed/vector")
    ],
)
