"""`POST /embed/vector/safetensors`: files in and out, what they cost, what is refused, and lost work."""

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import orjson
import pytest
from alert_kit import until
from gateway_kit import Gateway as RealGateway
from gateway_kit import Tenant
from inprocess_kit import Gateway
from safetensors import safe_open
from safetensors.numpy import save

TYPE = {"Content-Type": "application/vnd.safetensors"}
MARK = 0.7193746182
ROWS = np.random.default_rng(1).normal(size=(64, 32)).astype(np.float32) / 8


def file_of(vectors: np.ndarray = ROWS, **params: Any) -> bytes:
    return save({"vectors": vectors}, metadata={"request": orjson.dumps({"epsilon": 2.0} | params).decode()})


def post(tenant: Tenant, content: bytes | Iterator[bytes], headers: dict[str, str] | None = None) -> httpx.Response:
    return tenant.http.post("/embed/vector/safetensors", content=content, headers=TYPE | (headers or {}))


def opened(answer: httpx.Response, folder: Path) -> tuple[np.ndarray, dict[str, Any]]:
    """The released vectors and the blocks of the answer's metadata, as the safetensors library reads them."""
    path = folder / "answer.safetensors"
    path.write_bytes(answer.content)
    with safe_open(path, framework="numpy") as file:
        return file.get_tensor("embeddings"), {name: orjson.loads(text) for name, text in file.metadata().items()}


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_a_file_comes_back_as_a_file(tenant: Tenant, tmp_path: Path, kind: type) -> None:
    answer = post(tenant, file_of(ROWS.astype(kind), dimension=8, output_dtype=np.dtype(kind).name))
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/vnd.safetensors"
    vectors, blocks = opened(answer, tmp_path)
    assert vectors.dtype == kind
    assert vectors.shape == (64, 8)
    assert np.isfinite(vectors).all()
    assert blocks["privacy"]["guarantee"] == "metric-dp"
    assert blocks["privacy"]["release_id"] == answer.headers["release-id"]
    assert blocks["budget"]["committed"]["epsilon"] == 128.0
    assert blocks["usage"] == {"vectors": 64}
    assert tenant.committed("vector") == 128.0
    assert tenant.committed("sentence") == tenant.committed("token") == 256.0


def test_every_row_is_released_in_its_place(gateway: Gateway, tmp_path: Path) -> None:
    """More rows than one block of the worker takes, at an epsilon at which the noise is small."""
    tenant = gateway.tenant(epsilon=4_000_000)
    vectors = np.zeros((5000, 600), dtype=np.float32)
    vectors[np.arange(5000), np.arange(5000) % 600] = 1.0
    answer = post(tenant, file_of(vectors, mechanism="laplace", epsilon=390.0))
    assert answer.status_code == 200, answer.text
    released, _ = opened(answer, tmp_path)
    own = released[np.arange(5000), np.arange(5000) % 600]
    assert abs(own.mean() - 1.0) < 0.02
    assert abs(released.mean() - 1 / 600) < 1e-3


def test_noise_beyond_float16_is_bounded(tenant: Tenant, tmp_path: Path) -> None:
    answer = post(tenant, file_of(epsilon=0.001, output_dtype="float16", clip_norm=1000.0))
    vectors, _ = opened(answer, tmp_path)
    assert np.isfinite(vectors).all()


def test_same_key_same_file_is_the_same_answer_and_costs_nothing(tenant: Tenant) -> None:
    headers = {"Idempotency-Key": "file-1"}
    first, again = post(tenant, file_of(), headers), post(tenant, file_of(), headers)
    assert first.status_code == again.status_code == 200
    assert first.content == again.content
    assert first.headers["release-id"] == again.headers["release-id"]
    assert [answer.headers["idempotency-replayed"] for answer in (first, again)] == ["false", "true"]
    changed = ROWS.copy()
    changed[-1, -1] += 1
    assert post(tenant, file_of(changed), headers).json()["code"] == "idempotency-conflict"
    assert post(tenant, file_of(epsilon=1.0), headers).json()["code"] == "idempotency-conflict"
    assert tenant.committed("vector") == 128.0


def test_files_in_other_forms_are_taken(tenant: Tenant) -> None:
    content = file_of()
    pieces = (content[start : start + 1000] for start in range(0, len(content), 1000))  # no announced length
    length = int.from_bytes(content[:8], "little")
    header, numbers = content[8 : 8 + length].rstrip() + b" ", content[8 + length :]
    header += b" " * (3 - len(header) % 4)  # so that the numbers are not aligned
    large = file_of(np.full((3, 4), 3e38, dtype=np.float32))  # it is clipped
    for sent in (pieces, len(header).to_bytes(8, "little") + header + numbers, large):
        answer = post(tenant, sent)
        assert answer.status_code == 200, answer.text


def headed(header: Any, numbers: bytes = b"", *, length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else orjson.dumps(header)
    return struct.pack("<Q", len(text) if length is None else length) + text + numbers


PARAMS = {"request": '{"epsilon": 1.0}'}
ENTRY = {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]}
EIGHT = struct.pack("<2f", MARK, 0.0)


def with_entry(**changed: Any) -> bytes:
    return headed({"__metadata__": PARAMS, "vectors": ENTRY | changed}, EIGHT)


BAD_FILES = {
    "empty": b"", "seven bytes": b"\0" * 7, "a header longer than the file": headed(b"{}", length=1000),
    "a header of a petabyte": headed(b"{}", length=2**60),
    "a header above the limit": headed(b"{" + b" " * 70_000 + b"}"), "a header that is not JSON": headed(b"{x"),
    "a header that is a list": headed([]),
    "a pickle": b"\x80\x04\x95\x1a\0\0\0\0\0\0\0\x8c\x05posix\x8c\x06system\x93\x8c\x02ls\x85R.",
    "no tensor": headed({"__metadata__": PARAMS}),
    "another name": headed({"__metadata__": PARAMS, "vector": ENTRY}, EIGHT),
    "a second tensor": headed({"__metadata__": PARAMS, "vectors": ENTRY, "more": ENTRY}, EIGHT),
    "metadata of numbers": headed({"__metadata__": {"request": 1}, "vectors": ENTRY}, EIGHT),
    "no parameters": headed({"vectors": ENTRY}, EIGHT),
    "further metadata": headed({"__metadata__": PARAMS | {"x": "y"}, "vectors": ENTRY}, EIGHT),
    "parameters that are not JSON": headed({"__metadata__": {"request": "{"}, "vectors": ENTRY}, EIGHT),
    "a misspelt parameter": headed({"__metadata__": {"request": '{"epsilon":1,"x":1}'}, "vectors": ENTRY}, EIGHT),
    "no epsilon": headed({"__metadata__": {"request": "{}"}, "vectors": ENTRY}, EIGHT),
    "delta with strict": headed({"__metadata__": {"request": '{"epsilon":1,"delta":1e-6}'}, "vectors": ENTRY}, EIGHT),
    "another type of number": with_entry(dtype="F64", shape=[1, 1]),
    "a type that is no text": with_entry(dtype=["F32"]), "one axis": with_entry(shape=[2]),
    "three axes": with_entry(shape=[1, 1, 2]),
    "no rows": headed({"__metadata__": PARAMS, "vectors": {"dtype": "F32", "shape": [0, 2], "data_offsets": [0, 0]}}),
    "no columns": headed(
        {"__metadata__": PARAMS, "vectors": {"dtype": "F32", "shape": [2, 0], "data_offsets": [0, 0]}},
    ),
    "negative axes": with_entry(shape=[-1, -2]), "axes that are not integers": with_entry(shape=[1.0, 2.0]),
    "axes that multiply to too much": with_entry(shape=[2**62, 2**62]),
    "fewer numbers than said": with_entry(shape=[2, 2], data_offsets=[0, 16]),
    "more numbers than said": with_entry(shape=[1, 1], data_offsets=[0, 4]),
    "an offset": with_entry(data_offsets=[4, 12]), "trailing bytes": with_entry() + b"\0",
    "a further field": with_entry(extra=1), "NaN": file_of(np.full((3, 4), np.nan, dtype=np.float32)),
    "one infinity at the end": file_of(np.append(np.zeros((3, 4)), [[0, 0, 0, -np.inf]], axis=0).astype(np.float32)),
    "NaN as float16": file_of(np.full((3, 4), np.nan, dtype=np.float16)),
    "too many dimensions": file_of(np.zeros((1, 4097), dtype=np.float32)),
    "too many vectors for a codebook": file_of(np.zeros((8193, 2), dtype=np.float32), mechanism="codebook"),
    "too many vectors": file_of(np.zeros((100_001, 1), dtype=np.float32), dimension=1),
}  # fmt: skip


def test_a_bad_file_is_refused_uncharged_and_not_repeated(tenant: Tenant) -> None:
    for case, file in BAD_FILES.items():
        answer = post(tenant, file)
        assert answer.status_code == 422, f"{case}: {answer.text}"
        assert answer.headers["content-type"] == "application/problem+json"
        assert str(MARK) not in answer.text
        assert tenant.committed("vector") == tenant.committed("sentence") == 0.0


def test_an_answer_above_the_limit_is_not_kept(gateway: Gateway) -> None:
    """Its replay is refused, and charges nothing more."""
    tenant = gateway.tenant(epsilon=1_000_000)
    large = file_of(np.zeros((34_000, 64), dtype=np.float32))
    headers = {"Idempotency-Key": "large"}
    first, again = post(tenant, large, headers), post(tenant, large, headers)
    assert first.status_code == 200
    assert len(first.content) > 8 * 1024 * 1024
    assert again.status_code == 410
    assert again.json()["code"] == "release-gone"
    assert tenant.committed("vector") == 68_000.0


def shared_memory_of(pid: int) -> int:
    """How many blocks of shared memory the process holds."""
    held = 0
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            held += "memfd:privacy-gateway" in str(descriptor.readlink())
    return held


def test_no_process_keeps_the_memory_of_vectors(real_gateway: RealGateway, real_tenant: Tenant) -> None:
    for content in (file_of(), BAD_FILES["NaN"], BAD_FILES["no epsilon"]):
        post(real_tenant, content)
    assert real_tenant.http.post("/embed/vector", json={"vectors": [[1.0]], "epsilon": 1.0}).status_code == 200
    holders = [real_gateway.process.pid, real_gateway.pid_of("gpu_workers.engine.worker embed")]
    until(lambda: not any(map(shared_memory_of, holders)))


def test_vectors_and_texts_are_in_no_file_and_no_log(real_gateway: RealGateway, real_tenant: Tenant) -> None:
    assert post(real_tenant, file_of()).status_code == 200
    for status, sent in (
        (200, {"vectors": [[MARK, 0.5]]}),
        (422, {"vectors": [[MARK, 0.5], [MARK]]}),
        (200, {"texts": ["A canary called quizzlethorpe."]}),
    ):
        assert real_tenant.http.post("/embed/vector", json={"epsilon": 2.0} | sent).status_code == status

    files = [path for path in real_gateway.data_dir.parent.rglob("*") if path.is_file()]
    assert files
    for path in files:
        with contextlib.suppress(FileNotFoundError):  # files come and go
            content = path.read_bytes()
            for text in (ROWS[:4].tobytes(), str(MARK)[:8].encode(), b"quizzlethorpe"):
                assert text not in content, path
