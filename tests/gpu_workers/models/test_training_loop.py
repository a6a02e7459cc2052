"""Training that is stopped goes on as if it had not been."""

from pathlib import Path

import torch

from gpu_workers.models.training_loop import Schedule, Training
from training.logged_training import CheckpointFile

SCHEDULE = Schedule(steps=12, rate=0.05, warmup=2)


def run(checkpoint: Path, until: int) -> Training:
    """A small regression, stopped after `until` steps as a killed process is: between two checkpoints or at one."""
    torch.manual_seed(1)
    layer = torch.nn.Linear(3, 1)
    training = Training(dict(layer.named_parameters()), SCHEDULE, CheckpointFile(checkpoint))

    def loss_of(step: int) -> torch.Tensor:
        if step == until:
            raise KeyboardInterrupt
        inputs = torch.randn(8, 3, generator=torch.Generator().manual_seed(step))
        return (layer(inputs) - inputs.sum(dim=1, keepdim=True)).square().mean()

    try:
        training.run(loss_of, lambda _: None, every_steps=4)
    except KeyboardInterrupt:
        return training
    return training


def test_a_stopped_training_goes_on_where_it_was(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole.pt", until=12)
    run(tmp_path / "cut.pt", until=6)
    cut = run(tmp_path / "cut.pt", until=12)
    assert cut.step == whole.step == 12
    for name, tensor in whole.parameters.items():
        assert torch.equal(tensor, cut.parameters[name])
        assert torch.equal(whole.average[name], cut.average[name])
