"""The options of `privacy-gateway workers start`. `tests/service/ray_serve` starts workers."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from command_kit import run_command

from service.cli import workers


@pytest.mark.parametrize(
    "role",
    ["embed", "embed=", "embed=two", "embed=-1", "embed=1-", "embed=1-x", "embed=1.5", "embed=1,1,1,1", "embed=1,x"],
)
def test_a_role_that_cannot_be_read_is_refused_before_a_cluster_is_asked(role: str) -> None:
    ended = run_command(None, "workers", "start", "--role", role)
    assert ended.returncode == 2
    assert "MIN-MAX" in ended.stderr


def started(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[Any, Any]:
    """What Ray Serve would be given, and how the command ended."""
    pytest.importorskip("ray")
    given: list[Any] = []
    serve = ModuleType("serve")
    serve.start = lambda **_: None  # type: ignore[attr-defined]
    serve.run = lambda _, **__: None  # type: ignore[attr-defined]
    monkeypatch.setattr(workers, "_connect", lambda _: serve)
    from service.ray_serve import application

    build = application.build

    def kept(own: dict[str, Any]) -> Any:
        given.append(application.Arguments(**own))
        return build(own)

    monkeypatch.setattr(application, "build", kept)
    ended = run_command(None, "workers", "start", *arguments)
    return given, ended


def test_a_number_is_fixed_and_a_range_follows_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    options = ["--role=embed=2-8,4,0.5", "--role=sanitize=3", "--target-load=0.5", "--scale-down-s=60", "--load-s=20"]
    [given], ended = started(monkeypatch, *options)
    assert ended.returncode == 0
    assert (given.target_load, given.scale_up_s, given.scale_down_s, given.load_s) == (0.5, 30, 60, 20)
    embed, sanitize = given.roles["embed"], given.roles["sanitize"]
    assert (embed.replicas, embed.most, embed.cpus, embed.gpus) == (2, 8, 4, 0.5)
    assert (sanitize.replicas, sanitize.most, sanitize.cpus, sanitize.gpus) == (3, 3, 1, 0)


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("--role=embed=3-2", "roles.embed"),
        ("--role=embed=0-2", "roles.embed"),
        ("--role=jobs=1-2", "the number of job runners is fixed"),
        ("--role=other=1", "roles.other"),
        ("--target-load=2", "target_load"),
        ("--scale-up-s=-1", "scale_up_s"),
    ],
)
def test_numbers_that_cannot_work_are_refused_with_their_place(
    option: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, ended = started(monkeypatch, option)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert reason in ended.stderr
