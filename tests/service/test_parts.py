"""The parts of a gateway: each is built once, after those that it asks for."""

from dataclasses import dataclass

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from service.parts import Part, Parts


@dataclass
class Engine:
    power: int


@dataclass
class Car:
    engine: Engine


class Roof:
    """A part that may be left out."""


def test_a_part_is_built_once_and_after_those_that_it_asks_for() -> None:
    built = []

    def engine(_: Parts) -> Engine:
        built.append(Engine)
        return Engine(90)

    parts = Parts()
    parts.offer({Car: lambda parts: Car(parts[Engine])})
    parts.offer({Engine: engine})
    parts.build()
    assert built == [Engine]
    assert parts[Car].engine is parts[Engine]


def test_a_part_that_nobody_offers_is_an_error_and_one_that_is_left_out_is_none() -> None:
    parts = Parts()
    with pytest.raises(LookupError, match="nobody offers Roof"):
        parts.find(Roof)
    parts.offer({Roof: lambda _: None})
    assert parts.find(Roof) is None
    with pytest.raises(LookupError, match="has no Roof"):
        parts[Roof]


def test_parts_that_need_each_other_and_two_offers_of_one_type_are_errors() -> None:
    parts = Parts()
    parts.offer({Car: lambda parts: Car(parts[Engine]), Engine: lambda parts: parts[Car].engine})
    with pytest.raises(LookupError, match="need each other: Car, Engine, Car"):
        parts.build()
    with pytest.raises(ValueError, match="offered twice: Car"):
        parts.offer({Car: lambda _: Car(Engine(1))})


def test_an_endpoint_gets_the_part_that_its_signature_names() -> None:
    app = FastAPI()
    app.state.parts = Parts()
    app.state.parts.offer({Engine: lambda _: Engine(90)})

    @app.get("/power")
    async def power(engine: Part[Engine]) -> int:
        return engine.power

    assert TestClient(app).get("/power").json() == 90
    assert "parameters" not in app.openapi()["paths"]["/power"]["get"]
