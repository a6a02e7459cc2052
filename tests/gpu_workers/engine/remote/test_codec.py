"""The codec: what arrives is what was sent, and what is not in the table is refused on both sides."""

from __future__ import annotations

import os
import pickle
import random
from array import array
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgpack
import numpy as np
import pytest

from core.errors import InvalidInput, TaskFailed, WorkerDied
from gpu_workers.engine.arrays import BlockArray
from gpu_workers.engine.portable import MemoryBlock
from gpu_workers.engine.remote.codec import Blocks, Codec, Plain, Undecodable


class Point(NamedTuple):
    x: int
    y: int


@dataclass(frozen=True)
class Document:
    text: str
    points: tuple[Point, ...]
    more: Any = None

    def __post_init__(self) -> None:
        raise AssertionError("decoding calls no constructor")


class Tree:
    def __init__(self) -> None:
        self.nodes = {"a": {0: "value", "b": {}}}
        self.cache = object()


def document(text: str, points: tuple[Point, ...], more: Any = None) -> Document:
    made = object.__new__(Document)
    for name, value in (("text", text), ("points", points), ("more", more)):
        object.__setattr__(made, name, value)
    return made


CODEC = Codec((Point, Document, Plain(Tree, ("nodes",))))


def sent(value: Any) -> Any:
    return CODEC.decode(CODEC.encode(value))


@pytest.mark.parametrize(
    "value",
    [
        None, True, -1, 2**63, -(2**200), 0.1, float("inf"), "", "text \ud800", b"\0", [], (), (1, (2,)), [(), []],
        {"a": 1, 2: [3]}, frozenset({"a", "b"}), array("q", [1, -2]), array("f", [0.5]), Point(1, 2),
        document("text", (Point(1, 2), Point(3, 4)), {"more": document("inner", ())}),
    ],
)  # fmt: skip
def test_values_arrive_as_they_are(value: Any) -> None:
    found = sent(value)
    assert (type(found), found) == (type(value), value)


def test_numbers_arrive_as_they_are() -> None:
    for kind in (np.float16, np.float32, np.float64, np.int8, np.uint8, np.bool_):
        numbers = np.arange(12).reshape(3, 4).astype(kind)
        found = sent((numbers, numbers[:, ::2]))
        assert found[0].dtype == kind
        assert (found[0] == numbers).all()
        assert (found[1] == numbers[:, ::2]).all()
        assert found[0].flags.writeable
    assert sent(np.float32(0.5)) == 0.5


def test_errors_arrive_by_class_and_fields() -> None:
    for error in (InvalidInput("A sentence.", field="text"), TaskFailed(reason="draw"), WorkerDied()):
        found = sent([error])[0]
        assert (type(found), vars(found)) == (type(error), vars(error))


def test_a_class_that_is_neither_is_sent_by_its_row() -> None:
    found = sent(Tree())
    assert found.nodes == {"a": {0: "value", "b": {}}}
    assert not hasattr(found, "cache")


@dataclass
class Unknown:
    text: str


@pytest.mark.parametrize("value", [Unknown("a"), object(), np.array([object()]), np.array(["a"]), lambda: None, 1j])
def test_what_has_no_row_is_not_sent(value: Any) -> None:
    with pytest.raises(TypeError):
        CODEC.encode([value])
    with pytest.raises(TypeError):
        CODEC.encode(BlockArray(MemoryBlock(8), "float32", (1, 2)))  # without blocks


def test_arrays_take_the_range_that_they_use_of_their_blocks() -> None:
    block, other = MemoryBlock(1000), MemoryBlock(64)
    rows = BlockArray(block, "float32", (50, 5))
    rows.write_rows(np.arange(250, dtype=np.float32).reshape(50, 5), 0)
    blocks = Blocks()
    value = [rows.rows(slice(10, 20)), rows.rows(slice(30, 31)), BlockArray(other, "float16", (2, 2), 6)]
    data = CODEC.encode(value, blocks)
    assert blocks.blocks == [block, other]
    assert blocks.ranges == [(200, 620), (6, 14)]
    own = MemoryBlock(420)
    own.write(block.view(620)[200:], 0)
    first, second, third = CODEC.decode(data, [(own, 200), (MemoryBlock(8), 6)])
    assert (first.read() == value[0].read()).all()
    assert (second.read() == value[1].read()).all()
    assert (third.offset, third.shape, np.dtype(third.dtype)) == (0, (2, 2), np.float16)
    for places in ([], [(MemoryBlock(419), 200), (MemoryBlock(8), 6)], [(own, 201), (MemoryBlock(8), 6)]):
        with pytest.raises(Undecodable):
            CODEC.decode(data, places)


class Runs:
    """What a pickle would run."""

    def __reduce__(self) -> Any:
        return os._exit, (3,)


def ext(code: int, value: Any) -> bytes:
    packed: bytes = msgpack.packb(msgpack.ExtType(code, msgpack.packb(value)))
    return packed


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps(Runs()), b"", b"\xc1", ext(1, [0, 1]), ext(1, [-1, 1, 2]), ext(1, [99]), ext(1, ["Point", 1, 2]),
        ext(2, ["O", [1], b"12345678"]), ext(2, ["f4", [1000], b"1234"]), ext(2, ["U4", [1], b"0" * 16]),
        ext(3, ["u", b"1234"]), ext(5, ["Exception", {"detail": "x"}]), ext(5, ["GatewayError", {}]), ext(77, 1),
        ext(6, [0, "f4", [1, 1], 0]), ext(0, 5),
    ],
)  # fmt: skip
def test_hostile_bytes_are_refused_without_their_text(data: bytes) -> None:
    with pytest.raises(Undecodable) as error:
        CODEC.decode(data)
    assert error.value.__cause__ is None
    assert str(error.value) == "not a message of this codec"


def test_changed_messages_give_values_of_the_table_or_an_error() -> None:
    drawn = random.Random(5)
    message = CODEC.encode([document("text", (Point(1, 2),)), np.ones(3), TaskFailed(), {"a": (1, 2)}])
    for _ in range(3000):
        changed = bytearray(message)
        for _ in range(drawn.randint(1, 4)):
            changed[drawn.randrange(len(changed))] = drawn.randrange(256)
        try:
            CODEC.decode(changed)
        except Undecodable:
            continue


def test_another_table_has_another_schema() -> None:
    same = Codec((Point, Document, Plain(Tree, ("nodes",))))
    others = [
        Codec((Point,)),
        Codec((Document, Point, Plain(Tree, ("nodes",)))),
        Codec((Point, Document, Plain(Tree, ()))),
    ]
    assert CODEC.schema == same.schema
    assert len({CODEC.schema, *(other.schema for other in others)}) == 4


def test_entries_of_a_list_that_cannot_be_read_are_named() -> None:
    codec = Codec((Point,))
    good, bad = Point(1, 2), array("u", "x")
    assert codec.decode_list(codec.encode([good, bad, "text", bad])) == ([good, None, "text", None], [1, 3])
    assert codec.decode_list(codec.encode([good])) == ([good], [])
    for no_list in (codec.encode(good), codec.encode([good]) + b"\x00", codec.encode([good])[:-1], b"", b"\xdd\xff"):
        with pytest.raises(Undecodable):
            codec.decode_list(no_list)
