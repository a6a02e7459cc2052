"""Read the weights of Rampart, the start of the entity tagger's training.

Rampart is a token classifier for personal data by National Design Studio (CC BY 4.0), fine-tuned from the language
model from which the bundled encoder was made. Its file is ONNX with 4-bit linear layers in blocks of 32 inputs and
8-bit embeddings. Its vocabulary is a part of the encoder's: the other pieces keep the encoder's embeddings.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

FloatArray = npt.NDArray[np.float32]
_EMBEDDINGS = "bert.embeddings.{}_embeddings.weight"
_WORDS = "embeddings.word_embeddings.weight"


def read(path: Path) -> dict[str, FloatArray]:
    """Return the float32 weights of `model_q4.onnx`, with the names of a transformers `BertForTokenClassification`."""
    import onnx
    from onnx.numpy_helper import to_array

    graph = onnx.load(path).graph
    stored = {item.name: to_array(item) for item in graph.initializer}
    weights = {name: array.astype(np.float32) for name, array in stored.items() if name.endswith((".weight", ".bias"))}
    for kind in ("word", "token_type", "position"):
        name = _EMBEDDINGS.format(kind)
        steps = stored[f"{name}_quantized"].astype(np.float32) - np.float32(stored[f"{name}_zero_point"])
        weights[name] = steps * np.float32(stored[f"{name}_scale"])
    for node in graph.node:
        if node.op_type == "MatMulNBits":  # /bert/encoder/layer.0/attention/self/query/MatMul_Q4
            name = ".".join(node.name.strip("/").split("/")[:-1])
            weights[f"{name}.weight"] = _four_bits(stored[node.input[1]], stored[node.input[2]])
    return weights


def _four_bits(packed: npt.NDArray[np.uint8], scales: npt.NDArray[np.float32]) -> FloatArray:
    """`packed` `[out, blocks, half]`: two inputs a byte, the lower four bits first. 8 stands for zero."""
    rows, blocks, half = packed.shape
    steps = np.stack([packed & 15, packed >> 4], axis=-1).reshape(rows, blocks, 2 * half).astype(np.float32) - 8
    scaled: FloatArray = (steps * scales.reshape(rows, blocks, 1)).reshape(rows, -1).astype(np.float32)
    return scaled


def copy_to(bert: torch.nn.Module, folder: Path, vocabulary: dict[str, int]) -> None:
    """Copy Rampart's encoder into a `BertModel` of the bundled encoder. `vocabulary`: the encoder's.

    `folder` holds `vocab.txt` and `onnx/model_q4.onnx`.
    """
    weights = {
        name.removeprefix("bert."): torch.from_numpy(array)
        for name, array in read(folder / "onnx" / "model_q4.onnx").items()
        if name.startswith("bert.")
    }
    own = weights.pop(_WORDS)
    pieces = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()[: len(own)]
    state = bert.state_dict()
    words = state[_WORDS].clone()
    words[[vocabulary[piece] for piece in pieces]] = own
    unknown = weights.keys() - state.keys()
    if unknown:
        raise ValueError(f"not a weight of the encoder: {sorted(unknown)[0]}")
    bert.load_state_dict({**state, **weights, _WORDS: words})
