"""The two heads on the bundled sentence encoder: one labels word pieces, one predicts masked ones.

Both serve training and inference. For training, `gpu_workers.models.trainable_adapter.attach` prepares the inner
encoder. For inference, its weights come from `gpu_workers.models.lora.merged`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from gpu_workers.models.encoder_model import bundled_path
from gpu_workers.models.pieces import Case


def backbone(dtype: torch.dtype = torch.float32, attention: str = "sdpa") -> Any:
    """Return a new transformers `BertModel` of the bundled encoder, without its pooling head."""
    from transformers import BertModel
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # type: ignore[no-untyped-call]
    model: Any = BertModel.from_pretrained(
        bundled_path(),
        local_files_only=True,
        use_safetensors=True,
        add_pooling_layer=False,
        attn_implementation=attention,
        dtype=dtype,
    )
    return model.eval()


class TaggerNet(nn.Module):
    """Logits of the labels for every piece. The encoder's vocabulary is uncased; `case` is the case of each word."""

    def __init__(self, bert: Any, labels: int) -> None:
        super().__init__()
        width = int(bert.config.hidden_size)
        self.bert = bert
        self.case = nn.Embedding(len(Case), width)
        nn.init.zeros_(self.case.weight)
        self.head = nn.Linear(width, labels)

    def forward(self, ids: torch.Tensor, cases: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Map `ids`, `cases` int64 and `mask` `[rows, length]` to logits `[rows, length, labels]`."""
        embedded = self.bert.embeddings.word_embeddings(ids) + self.case(cases)
        states = self.bert(inputs_embeds=embedded, attention_mask=mask).last_hidden_state
        logits: torch.Tensor = self.head(states)
        return logits

    def own_parameters(self) -> dict[str, nn.Parameter]:
        """The parameters that are trained in addition to the encoder's adapter."""
        return {"case": self.case.get_parameter("weight"), **dict(self.head.named_parameters("head"))}


class InfillNet(nn.Module):
    """BERT's masked-language-model head on the encoder: a transform, then the word embeddings as output matrix."""

    def __init__(self, bert: Any) -> None:
        super().__init__()
        config = bert.config
        self.bert = bert
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Map `ids` int64 and `mask` `[rows, length]` to logits `[positions, vocabulary]`.

        `positions`: int64 indices into the flattened `[rows * length]`.
        """
        states = self.bert(input_ids=ids, attention_mask=mask).last_hidden_state
        chosen = states.reshape(-1, states.shape[-1])[positions]
        transformed = self.norm(nn.functional.gelu(self.dense(chosen)))
        return nn.functional.linear(transformed, self.bert.embeddings.word_embeddings.weight, self.bias)

    def own_parameters(self) -> dict[str, nn.Parameter]:
        """The parameters that are trained in addition to the encoder's adapter."""
        layers = (*self.dense.named_parameters("head.dense"), *self.norm.named_parameters("head.norm"))
        return {**dict(layers), "head.bias": self.bias}
