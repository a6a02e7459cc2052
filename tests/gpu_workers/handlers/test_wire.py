"""Every class of a task or a result can be sent to a worker server, and nothing else can be received."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import pkgutil
import re
import sys
import typing
from array import array
from types import ModuleType
from typing import Any

import pytest

from core.errors import GatewayError
from core.text.reversible.forms import mapping_of
from core.text.reversible.mapping import Content, Mapping, Pair
from gpu_workers import handlers
from gpu_workers.engine.arrays import Block, BlockArray
from gpu_workers.engine.remote.codec import Plain
from gpu_workers.facts import EmbedderFacts, SanitiserFacts
from gpu_workers.handlers import embedder, sanitiser
from gpu_workers.handlers.wire import TABLE, wire_codec

FACTS = (EmbedderFacts, SanitiserFacts)
NEVER_SENT = {"Regions"}  # what only the front end uses, beside tasks that run in pieces alone


def records_in(module: ModuleType) -> list[type]:
    """The dataclasses and named tuples that a module defines."""
    own = [kind for kind in vars(module).values() if isinstance(kind, type) and kind.__module__ == module.__name__]
    return [kind for kind in own if dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")]


def sent_classes() -> list[type]:
    """All classes of the modules that define a task, which is what has a weight; and what handlers take and return."""
    modules = [
        importlib.import_module(f"{handlers.__name__}.{each.name}") for each in pkgutil.iter_modules(handlers.__path__)
    ]
    defined = [records_in(module) for module in modules]
    tasks = [kind for own in defined if any(hasattr(kind, "weight") for kind in own) for kind in own]
    unions = (sanitiser.AnyTask, sanitiser.Result, embedder.Answer)
    return [*tasks, *(kind for union in unions for kind in classes_in(union) if kind is not GatewayError), *FACTS]


def hints(kind: type) -> dict[str, Any]:
    """The types of the fields. A field is of the module of the class that declares it."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        for name, hint in vars(base).get("__annotations__", {}).items():
            text = re.sub(r"array\[\w+\]", "array", hint) if isinstance(hint, str) else hint
            own = vars(sys.modules[base.__module__]) | {"array": array}
            found[name] = eval(text, own) if isinstance(text, str) else text
    names = [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else kind._fields
    return {name: found[name] for name in names}


def classes_in(hint: Any) -> set[type]:
    if typing.get_origin(hint) is not None or type(hint).__name__ == "UnionType":
        return {kind for part in typing.get_args(hint) for kind in classes_in(part)}
    if isinstance(hint, type) and hint.__module__.split(".")[0] in ("core", "gpu_workers"):
        return {hint}
    return set()


def test_every_class_of_a_field_has_a_row() -> None:
    rows = {row.kind if isinstance(row, Plain) else row for row in TABLE}
    assert len(rows) == len(TABLE)
    seen: set[type] = {BlockArray, Block}
    left = sent_classes()
    assert {kind.__name__ for kind in left} >= {"EmbedTask", "DocumentTask", "DraftTask", "DraftFinds", "EmbedRelease"}
    while left:
        kind = left.pop()
        if kind in seen or kind.__name__ in NEVER_SENT or getattr(kind, "only_pieces", False):
            continue
        seen.add(kind)
        assert kind in rows, f"{kind.__name__} has no row in gpu_workers.handlers.wire.TABLE"
        assert not issubclass(kind, enum.Enum)
        if dataclasses.is_dataclass(kind) or hasattr(kind, "_fields"):
            left += [found for hint in hints(kind).values() for found in classes_in(hint)]


def test_a_mapping_of_surrogates_arrives_with_its_tree() -> None:
    pairs = (
        Pair("PERSON", "Jo \ud83d Miller", "Ann Smith"),
        Pair("LOCATION", "x" * 40, "Old Town " * 40),  # longer than the tree's nodes
    )
    mapping = mapping_of(Content(pairs, "en", frozenset({"Smith"})))
    sent = wire_codec().decode(wire_codec().encode(mapping))
    text = f"Ann Smith lives in {'Old Town ' * 40}, and Ann does not."
    assert isinstance(sent, Mapping)
    assert sent.restore(text) == mapping.restore(text) != text
    assert sent.content == mapping.content


@pytest.mark.parametrize("module", ["service.app", "service.cli.main"])
def test_a_gateway_with_its_own_workers_does_not_import_what_servers_need(module: str) -> None:
    importlib.import_module(module)
    import subprocess

    code = f"import sys, {module}; print([name for name in ('grpc', 'ray') if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
