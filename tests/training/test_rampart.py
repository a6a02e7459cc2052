"""The weights from which the tagger's training starts are read from their 4-bit file."""

from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper

from gpu_workers.models.nets import backbone
from training import rampart

QUERY = "bert.encoder.layer.0.attention.self.query"
WORDS = "bert.embeddings.word_embeddings.weight"


def write(folder: Path, pieces: list[str], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Write a file of one linear layer and the embeddings, and return their weights."""
    steps = rng.integers(0, 16, (384, 384))
    scales = rng.uniform(0.01, 0.1, (384, 12)).astype(np.float32)
    packed = (steps[:, 0::2] | steps[:, 1::2] << 4).astype(np.uint8).reshape(384, 12, 16)
    stored = {"q": packed, "s": scales, f"{QUERY}.bias": np.ones(384, np.float32)}
    weights = {f"{QUERY}.weight": (steps - 8) * np.repeat(scales, 32, axis=1)}
    for kind, rows in (("word", len(pieces)), ("token_type", 2), ("position", 512)):
        name, values = f"bert.embeddings.{kind}_embeddings.weight", rng.integers(0, 256, (rows, 384)).astype(np.uint8)
        stored |= {f"{name}_quantized": values, f"{name}_zero_point": np.uint8(7), f"{name}_scale": np.float32(0.5)}
        weights[name] = (values.astype(np.float32) - 7) / 2
    node = helper.make_node(
        "MatMulNBits", ["x", "q", "s"], ["y"], name="/bert/encoder/layer.0/attention/self/query/MatMul_Q4"
    )
    arrays = [numpy_helper.from_array(np.asarray(array), name) for name, array in stored.items()]
    (folder / "onnx").mkdir()
    onnx.save(helper.make_model(helper.make_graph([node], "g", [], [], arrays)), folder / "onnx" / "model_q4.onnx")
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    return weights


def test_the_encoder_gets_the_weights_and_keeps_the_pieces_that_they_lack(tmp_path: Path) -> None:
    vocabulary = {"[PAD]": 0, "haus": 5, "##en": 9}
    weights = write(tmp_path, ["##en", "haus"], np.random.default_rng(1))
    bert, before = backbone(), backbone().state_dict()
    rampart.copy_to(bert, tmp_path, vocabulary)
    after = bert.state_dict()

    query = QUERY.removeprefix("bert.")
    assert np.allclose(after[f"{query}.weight"].numpy(), weights[f"{QUERY}.weight"], atol=1e-6)
    words = "embeddings.word_embeddings.weight"
    assert np.allclose(after[words][[9, 5]].numpy(), weights[WORDS])
    assert torch.equal(after[words][100], before[words][100])
    assert torch.equal(after["encoder.layer.1.output.dense.weight"], before["encoder.layer.1.output.dense.weight"])
