"""The embed role: what it loads at its start, what it releases with `domain: "auto"`, and what it refuses."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from pack_kit import make_pack, make_routes

from core.errors import TaskFailed
from core.mechanisms.sentences.domain_pack import CodeNoise, DomainPack
from core.mechanisms.sentences.registry import sentence_mechanism
from core.mechanisms.sentences.routing import RoutedCodes
from gpu_workers.engine.handler import UnfitDevice
from gpu_workers.handlers.embedder import Embedder
from gpu_workers.handlers.options import WorkerOptions
from gpu_workers.handlers.tasks import EmbedRelease, EmbedTask
from gpu_workers.packs import ROUTES, pack_paths, routes_path

DIMENSION = 8
NANO = 10**9
EYE = np.eye(DIMENSION, dtype=np.float32)


def embedder(tmp_path: Path, *, packs: tuple[str, ...] = ("news", "general")) -> Embedder:
    """A handler that has loaded made-up packs, and routes between `news` (axis 0) and `general` (axis 1)."""
    made = Embedder(WorkerOptions())
    made._encoder = SimpleNamespace(device=torch.device("cpu"))  # these tests encode no sentence
    for domain in packs:
        made._mechanisms[domain, "sentence_codes"] = sentence_mechanism("sentence_codes", make_pack(EYE))
    made_routes = make_routes(EYE[:2], [0, 1], ("news", "general"))
    made_routes.save(tmp_path / ROUTES)
    made._load_routes(tmp_path / ROUTES)
    return made


def task(*axes: int, epsilon: float = 40.0, **fields: object) -> EmbedTask:
    plain = EmbedTask(None, EYE[list(axes)], "sentence_codes", "auto", round(epsilon * NANO))
    return replace(plain, **fields)  # type: ignore[arg-type]


def released(made: Embedder, *tasks: EmbedTask) -> list[str | type | None]:
    answers = made._documents(tasks, made._sentences(tasks))
    return [answer.domain if isinstance(answer, EmbedRelease) else type(answer) for answer in answers]


def test_a_release_names_the_pack_that_was_chosen(tmp_path: Path) -> None:
    made = embedder(tmp_path)
    tasks = [task(*[0] * 70), task(*[1] * 70), task(0, domain="news"), task(*[0] * 70)]
    assert released(made, *tasks) == ["news", "general", None, "news"]


@pytest.mark.parametrize("fields", [{"by_counts": True}, {"mechanism": "clipped_cosine"}])
def test_what_was_priced_for_something_else_releases_nothing(
    tmp_path: Path, fields: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = embedder(tmp_path)
    monkeypatch.setattr(RoutedCodes, "release", None)
    (answer,) = released(made, task(0, **fields))
    assert answer not in ("news", "general")


def test_without_the_packs_of_the_routes_nothing_is_routed(tmp_path: Path) -> None:
    made = embedder(tmp_path, packs=("general",))
    assert made._routed is None
    assert released(made, task(0)) != ["general"]


def test_an_unfit_device_stops_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = embedder(tmp_path)
    monkeypatch.setattr(RoutedCodes, "self_check", lambda self: False)
    with pytest.raises(UnfitDevice):
        made._load_routes(tmp_path / ROUTES)


def test_malformed_routes_route_nothing_and_leave_the_packs(tmp_path: Path) -> None:
    made = embedder(tmp_path)
    made._routed = None
    (tmp_path / ROUTES).write_bytes(b"no routes")
    made._load_routes(tmp_path / ROUTES)
    assert released(made, task(0), task(0, domain="news")) == [TaskFailed, None]


def test_a_pack_that_cannot_be_used_is_left_out(tmp_path: Path) -> None:
    """Also one with the name of a shipped pack, which it replaces."""
    made = Embedder(WorkerOptions())
    fingerprint = make_pack(EYE).info.encoder_fingerprint
    made._encoder = SimpleNamespace(device=torch.device("cpu"), fingerprint=fingerprint, packs_of=fingerprint)
    for name, number in (("news", "0"), ("general", "1"), ("auto", "0")):
        pack = make_pack(EYE)
        replace(pack, info=replace(pack.info, encoder_fingerprint=number * 64)).save(tmp_path / f"{name}.safetensors")
    (tmp_path / "law.safetensors").write_bytes(b"no pack")
    (tmp_path / "sport.safetensors").mkdir()
    made._load_packs(tmp_path)
    make_routes(EYE[:2], [0, 1], ("news", "general")).save(tmp_path / ROUTES)
    made._load_routes(tmp_path / ROUTES)
    assert {domain for domain, _ in made._mechanisms} == {"news"}
    assert released(made, task(0, domain="news"), task(0), task(0, domain="general")) == [None, TaskFailed, TaskFailed]


def test_routes_are_no_pack(tmp_path: Path) -> None:
    assert routes_path(tmp_path) == routes_path()
    (tmp_path / ROUTES).touch()
    assert routes_path(tmp_path) == tmp_path / ROUTES
    assert "routes" not in pack_paths(tmp_path)


def test_a_pack_with_another_noise_than_was_priced_releases_nothing() -> None:
    """The front end prices by the facts that it read; the worker may have loaded the file at another time."""
    pack = DomainPack.load(pack_paths()["general"])
    by_noise = {
        parameters.code_noise: round(parameters.epsilon * 10**9) for parameters in pack.info.mechanism_parameters
    }
    mechanism = sentence_mechanism("sentence_codes", pack, "cpu")
    made = Embedder(WorkerOptions())
    made._encoder = SimpleNamespace(device="cpu")  # this test encodes no sentence
    made._mechanisms["general", "sentence_codes"] = mechanism
    drawn: list[int] = []
    release = mechanism.release
    mechanism.release = lambda documents, epsilons: drawn.extend(epsilons) or release(documents, epsilons)  # type: ignore[method-assign]

    def priced(noise: CodeNoise, *, by_counts: bool) -> EmbedTask:
        rows = np.eye(2, pack.info.dimension, dtype=np.float32)
        return EmbedTask(None, rows, "sentence_codes", "general", by_noise[noise], by_counts=by_counts)

    fine = [priced(CodeNoise.COUNTS, by_counts=True), priced(CodeNoise.COUNTS, by_counts=False)]

    assert released(made, *fine, priced(CodeNoise.RESPONSES, by_counts=False)) == [None] * 3
    drawn.clear()
    assert None not in released(made, *fine, priced(CodeNoise.RESPONSES, by_counts=True))
    assert not drawn
