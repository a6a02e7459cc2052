"""The `privacy-gateway` command, which kills itself at a step of a release: the one that the file CRASH_AT names.

Without such a file it is the ordinary command. A step is `before-X` or `after-X` of a ledger transition or of the
engine's run, or `after-send`; `during-run` is while a worker has the task.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import service.serve
from core.ledger.ledger import Ledger
from gpu_workers.engine.local.engine import LocalEngine
from service.cli.main import app

_CRASH_AT = Path(os.environ["CRASH_AT"])


def _armed(step: str) -> bool:
    return _CRASH_AT.exists() and _CRASH_AT.read_text() == step


def _crash_at(step: str) -> None:
    if _armed(step):
        os.kill(os.getpid(), signal.SIGKILL)


def _crash_around(owner: type, name: str) -> None:
    original = getattr(owner, name)

    async def wrapped(*args: Any, **options: Any) -> Any:
        _crash_at(f"before-{name}")
        if _armed(f"during-{name}"):
            running = asyncio.create_task(original(*args, **options))
            await asyncio.sleep(0.3)
            assert not running.done()
            _crash_at(f"during-{name}")
        result = await original(*args, **options)
        _crash_at(f"after-{name}")
        return result

    setattr(owner, name, wrapped)


class _CrashAfterSend:
    """Middleware around all others."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def sending(message: Any) -> None:
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body"):
                _crash_at("after-send")

        await self._app(scope, receive, sending)


def _crash_around_send(create_app: Callable[..., Any]) -> Callable[..., Any]:
    def create(*args: Any) -> Any:
        created = create_app(*args)
        created.add_middleware(_CrashAfterSend)
        return created

    return create


if __name__ == "__main__":
    for transition in ("reserve", "commit", "cancel", "expire"):
        _crash_around(Ledger, transition)
    _crash_around(LocalEngine, "run")
    service.serve.create_app = _crash_around_send(service.serve.create_app)
    app()
