"""Training of low-rank adapters: what is trained, where it starts, and that serving refuses an incomplete one."""

import pytest
import torch

from gpu_workers.infill.fine_tuning import adapter_parameters, attach
from gpu_workers.models.embedded import backbone, merged


def test_an_adapted_encoder_starts_as_the_encoder() -> None:
    ids = torch.arange(1_000, 1_020)[None]
    plain, adapted = backbone(), backbone()
    attach(adapted, rank=2)
    with torch.inference_mode():
        assert torch.equal(plain(ids).last_hidden_state, adapted(ids).last_hidden_state)


def test_the_adapter_alone_is_trained() -> None:
    bert = backbone()
    attach(bert, rank=2)
    bert(torch.arange(1_000, 1_020)[None]).last_hidden_state.square().sum().backward()
    trained = {id(parameter) for parameter in bert.parameters() if parameter.grad is not None}
    assert trained == {id(parameter) for parameter in adapter_parameters(bert).values()}


def test_an_adapter_that_lacks_a_layer_is_refused() -> None:
    bert = backbone()
    attach(bert, rank=2)
    tensors = dict(adapter_parameters(bert))
    del tensors["lora.3.intermediate.dense.up"]
    with pytest.raises(KeyError):
        merged(backbone().state_dict(), tensors)
