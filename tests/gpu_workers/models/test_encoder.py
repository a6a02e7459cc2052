"""The encoder: each vector a function of its own sentence, whatever the batch.

Packed batches need not be independent of companions: on some processors they are not. What must hold on every one is
that vectors are, in the mode that the self-check has chosen, and that an encoder which cannot be made so is refused.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
from table_kit import texts
from tiers import cells
from tiny_models import sentence_encoder

from gpu_workers.models import encoder_model, packed_bert
from gpu_workers.models.encoder import Encoder, bundled_fingerprint, weights_fingerprint
from gpu_workers.models.encoder_model import bundled_path, fastest_dtype

SUBJECTS = ("The committee", "My neighbour's old dog", "A report of forty pages", "She", "The new driver for the card")
VERBS = ("did not agree", "was lost", "left early, which surprised everybody")
ENDS = texts("""
. || ! ||  because of the rain in the north and the strikes that followed it for most of the winter.
, or so the 2 witnesses said (see p. 17).
 -- again; nobody could say why, nor did anybody ask, although several of those present had every reason to. || ?
""")
SENTENCES = ["", "No.", "   ", "ok " * 300] + [f"{s} {v}{e}" for s in SUBJECTS for v in VERBS for e in ENDS]


@pytest.fixture(scope="module", autouse=True)
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """More than one by default, as a worker has: kernels may share out rows by their number."""
    before = torch.get_num_threads()
    count: int = request.config.getoption("--threads")
    torch.set_num_threads(count)
    yield count
    torch.set_num_threads(before)


# Processors without matrix units for bfloat16 use float32.
DTYPES = [torch.float32, pytest.param(torch.bfloat16, marks=pytest.mark.slow("installation"))]


@pytest.fixture(scope="module", params=DTYPES, ids=str)
def encoder(request: pytest.FixtureRequest) -> Encoder:
    return Encoder(dtype=request.param)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Tiny encoders: one that can be packed, and one that cannot."""
    return {family: sentence_encoder(tmp_path_factory.mktemp(family), family) for family in ("bert", "roberta")}


def moved(encoder: Encoder, sentences: Sequence[str], sizes: Sequence[int]) -> int:
    """How many vectors differ in any bit from that of the sentence alone, in batches of these sizes."""
    alone = np.concatenate([encoder.encode([sentence]) for sentence in sentences])
    count = 0
    for seed, size in enumerate(sizes):
        order = np.random.default_rng(seed).integers(0, len(sentences), size)
        batch = encoder.encode([sentences[i] for i in order])
        count += int((batch != alone[order]).any(axis=1).sum())
    return count


@pytest.mark.slow("matrix")  # workers use the encoder in integers by default
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_vectors_ignore_their_companions_bitwise(dtype: torch.dtype) -> None:
    encoder = Encoder(dtype=dtype)
    if not encoder.self_check():
        pytest.skip("no worker serves on this processor")
    assert moved(encoder, SENTENCES[:4] + SENTENCES[4::4], (2, 3, 5, 9, 16, 33, 65, 150)) == 0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_vectors_of_a_gpu_ignore_their_companions_bitwise() -> None:
    encoder = Encoder(device="cuda")
    assert encoder.self_check()
    assert moved(encoder, SENTENCES[:4] + SENTENCES[4::4], (2, 3, 5, 9, 16, 33, 65, 150)) == 0
    assert (encoder.encode(SENTENCES) * Encoder(dtype=torch.float32).encode(SENTENCES)).sum(axis=1).min() > 0.985


def test_vectors_are_unit_float32(encoder: Encoder) -> None:
    vectors = encoder.encode(SENTENCES)
    assert vectors.shape == (len(SENTENCES), 384)
    assert vectors.dtype == np.float32
    assert np.abs(np.linalg.norm(vectors, axis=1) - 1).max() < 1e-5
    assert encoder.encode([]).shape == (0, 384)


@pytest.mark.slow("matrix")
def test_vectors_are_those_of_sentence_transformers(encoder: Encoder) -> None:
    from sentence_transformers import SentenceTransformer

    peer = SentenceTransformer(str(bundled_path()), device="cpu", local_files_only=True)
    cosines = (encoder.encode(SENTENCES) * peer.encode(SENTENCES, normalize_embeddings=True)).sum(axis=1)
    assert cosines.min() > (0.99999 if encoder.dtype is torch.float32 else 0.985)


@pytest.mark.slow("matrix")
def test_the_bundled_encoder_is_the_same_as_an_operators_copy_of_it(encoder: Encoder) -> None:
    """The one is read from its files, the other through sentence-transformers."""
    copy = Encoder(bundled_path(), dtype=encoder.dtype)
    assert copy.tokenise(SENTENCES) == encoder.tokenise(SENTENCES)
    assert np.array_equal(copy.encode(SENTENCES[::5]), encoder.encode(SENTENCES[::5]))
    assert replace(copy.facts(), name=encoder.name) == encoder.facts()


CALLS = count()
SIZES = (2, 5, 17, 60, 90)
SMALL = [" ".join(["the parcel was lost again"] * n)[: 3 + 7 * n] for n in range(1, 9)]


def break_kernel(
    monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
) -> None:
    """Encoders that are made from now on run `change(first operand, result)` after the kernel."""
    right = getattr(packed_bert, name)

    def broken(first: torch.Tensor, *others: torch.Tensor, **named: torch.Tensor) -> torch.Tensor:
        return change(first, right(first, *others, **named))

    monkeypatch.setattr(packed_bert, name, broken)


@pytest.mark.parametrize("tokens", cells([344, 8, 16, 200, 504, 512]))
def test_a_linear_kernel_that_differs_at_one_number_of_rows_is_noticed(
    small: dict[str, Path], monkeypatch: pytest.MonkeyPatch, tokens: int
) -> None:
    """Libraries choose kernels by the number of rows: any one number may have a rounding of its own."""
    break_kernel(monkeypatch, "linear", lambda rows, out: out * (1 + 1e-6 * (len(rows) == tokens)))
    encoder = Encoder(small["bert"], dtype=torch.float32)
    assert encoder.self_check()
    assert (encoder.facts().packed, encoder.facts().tile_rows) == (True, 128)
    assert moved(encoder, SMALL, SIZES) == 0


def test_a_linear_kernel_that_differs_inside_of_a_tile_leads_to_fixed_batches(
    small: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(rows: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        late = torch.arange(len(out))[:, None] % 128 > 60
        return out * (1 + 1e-6 * (len(rows) in (128, 504)) * late)

    break_kernel(monkeypatch, "linear", change)
    encoder = Encoder(small["bert"], dtype=torch.float32)
    assert encoder.self_check()
    assert (encoder.facts().packed, encoder.facts().tile_rows) == (False, None)
    assert encoder.facts().fixed_batches is True
    assert moved(encoder, SMALL, SIZES) == 0


@pytest.mark.parametrize(("sentences", "length"), cells([(7, 24), (2, 8), (12, 40)]))
def test_an_attention_kernel_that_differs_at_one_size_is_noticed(
    small: dict[str, Path], monkeypatch: pytest.MonkeyPatch, sentences: int, length: int
) -> None:
    def change(query: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        return out * (1 + 1e-6 * ((query.shape[0], query.shape[2]) == (sentences, length)))

    break_kernel(monkeypatch, "scaled_dot_product_attention", change)
    encoder = Encoder(small["bert"], dtype=torch.float32)
    assert encoder.self_check()
    assert encoder.facts().fixed_batches is True
    assert moved(encoder, SMALL, SIZES) == 0


def test_bfloat16_hides_no_kernel_that_sums_in_another_order(
    small: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is rounded to 8 bits seldom shows how it was summed; the check looks where it does."""
    right = packed_bert.linear

    def in_two(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        if len(rows) != 344:
            return right(rows, weight, bias)
        half = rows.shape[1] // 3
        parts = (
            rows[:, :half].float() @ weight[:, :half].float().t(),
            rows[:, half:].float() @ weight[:, half:].float().t(),
        )
        return (parts[0] + parts[1] + bias.float()).to(rows.dtype)

    monkeypatch.setattr(packed_bert, "linear", in_two)
    encoder = Encoder(small["bert"], dtype=torch.bfloat16)
    assert encoder.self_check()
    assert encoder.facts().tile_rows == 128


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda rows, out: out + 1e-6 * out.mean(dim=0), id="companions"),
        pytest.param(lambda rows, out: out * (1 + 1e-6 * (torch.arange(len(out)) % 16 > 8)[:, None]), id="position"),
        pytest.param(lambda rows, out: out * (1 + 1e-6 * next(CALLS)), id="time"),
    ],
)
def test_an_encoder_that_cannot_be_made_independent_is_refused(
    small: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> None:
    break_kernel(monkeypatch, "linear", change)
    assert not Encoder(small["bert"], dtype=torch.float32).self_check()


def test_a_model_that_cannot_be_packed_runs_only_shapes_that_were_checked(
    small: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = Encoder(small["roberta"], dtype=torch.float32)
    shapes = seen_shapes(encoder, monkeypatch)
    assert encoder.self_check()
    assert encoder.facts().packed is False
    checked = set(shapes)
    assert moved(encoder, SMALL, SIZES) == 0
    assert shapes == checked


def test_a_model_that_cannot_be_packed_falls_back_to_one_shape_a_length(
    small: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = Encoder(small["roberta"], dtype=torch.float32)
    hidden = encoder._model.hidden

    def by_rows(groups: Sequence[packed_bert.Group]) -> list[torch.Tensor]:
        return [states * (1 + 1e-6 * len(states)) for states in hidden(groups)]

    monkeypatch.setattr(encoder, "_model", replace(encoder._model, hidden=by_rows))
    assert encoder.self_check()
    assert encoder.facts().fixed_batches is True
    shapes = seen_shapes(encoder, monkeypatch)
    assert moved(encoder, SMALL, SIZES) == 0
    assert len(shapes) == len({length for _, length in shapes})


def seen_shapes(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> set[tuple[int, ...]]:
    """Fills up with the shapes of ids that the model runs from now on."""
    shapes: set[tuple[int, ...]] = set()
    hidden = encoder._model.hidden

    def noted(groups: Sequence[packed_bert.Group]) -> list[torch.Tensor]:
        shapes.update(tuple(ids.shape) for ids, _ in groups)
        return hidden(groups)

    monkeypatch.setattr(encoder, "_model", replace(encoder._model, hidden=noted))
    return shapes


def test_another_number_of_threads_than_was_checked_is_refused(small: dict[str, Path], threads: int) -> None:
    encoder = Encoder(small["bert"])
    assert encoder.self_check()
    encoder.encode(SMALL)
    torch.set_num_threads(threads + 1)
    try:
        with pytest.raises(RuntimeError, match="threads"):
            encoder.encode(SMALL)
    finally:
        torch.set_num_threads(threads)
    encoder.encode(SMALL)


def test_the_dtype_is_the_faster_one_of_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(flag: str, seconds: float) -> torch.dtype:
        encoder_model._fastest_on_processor.cache_clear()
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {flag: True})
        monkeypatch.setattr(encoder_model, "layer_seconds", lambda: {torch.bfloat16: seconds, torch.float32: 1.0})
        return fastest_dtype(torch.device("cpu"))

    try:
        assert chosen("avx512_bf16", 0.5) is torch.bfloat16
        assert chosen("avx512_bf16", 1.7) is torch.float32
        assert chosen("avx512_bf16", 0.95) is torch.float32, "it is less exact, and hardly faster"
        assert chosen("avx2", 0.5) is torch.float32, "it would be emulated"
    finally:
        encoder_model._fastest_on_processor.cache_clear()


@pytest.mark.slow("matrix")
def test_a_fingerprint_tells_types_apart_and_packs_serve_each() -> None:
    encoders = [Encoder(dtype=dtype) for dtype in (torch.float32, torch.bfloat16, torch.float32)]
    first, other, again = (encoder.facts() for encoder in encoders)
    assert first.fingerprint == again.fingerprint != other.fingerprint
    assert first.arithmetic == again.arithmetic != other.arithmetic
    assert first.packs_of == other.packs_of == bundled_fingerprint()


@pytest.mark.slow("matrix")
def test_a_fingerprint_tells_kernels_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums in another order: the same weights and type, and other last bits."""
    right = packed_bert.linear

    def in_two_parts(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        half = rows.shape[1] // 2
        return right(rows[:, :half], weight[:, :half]) + right(rows[:, half:], weight[:, half:], bias)

    monkeypatch.setattr(packed_bert, "linear", in_two_parts)
    for dtype in (torch.float32, torch.bfloat16):
        with monkeypatch.context() as usual:
            usual.setattr(packed_bert, "linear", right)
            before = Encoder(dtype=dtype).facts()
        after = Encoder(dtype=dtype).facts()
        assert after.fingerprint != before.fingerprint
        assert (after.dtype, after.packs_of) == (before.dtype, before.packs_of)


def test_a_folder_without_weights_is_refused(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="weights"):
        weights_fingerprint(tmp_path)
    assert bundled_path().is_dir()
