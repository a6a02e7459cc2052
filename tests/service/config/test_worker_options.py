"""The devices of the workers, by the settings."""

from pathlib import Path

import pytest
import torch

from gpu_workers.engine.protocol import Role
from gpu_workers.models.device import torch_device
from service.config.settings import Settings
from service.config.worker_options import handler_factories


@pytest.mark.parametrize("devices", [("auto",), ("cuda:0", "cuda:1")])
def test_every_role_follows_one_setting(devices: tuple[str, ...], tmp_path: Path) -> None:
    factories = handler_factories(Settings(data_dir=tmp_path, devices=devices))
    found = {role: tuple(factory.args[1].device for factory in own) for role, own in factories.items()}
    assert found == {Role.EMBED: devices, Role.SANITIZE: devices[:1], Role.FILL: devices[:1]}


@pytest.mark.parametrize(("has_gpu", "device"), [(True, "cuda:0"), (False, "cpu")])
def test_auto_is_the_first_gpu_else_the_processor(has_gpu: bool, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    assert torch_device("auto") == torch.device(device)
    assert torch_device("cpu") == torch.device("cpu")
