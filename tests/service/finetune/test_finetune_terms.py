"""What a request for a training leaves out, and what it may say of the classes: without a gateway."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from finetune_http_kit import terms
from finetune_kit import labelled
from pydantic import ValidationError

from core.errors import BadCorpus, InvalidInput
from core.finetune.plan import budget_of, training_budget
from service.config.settings import Settings
from service.finetune.job_kind import FinetuneFields, FinetuneKind, FinetuneRequest
from service.jobs.kind import Outputs


class Planned:
    """The process of the calculations, in this one."""

    async def run(self, name: str, *, tenant: str, **fields: Any) -> Any:
        assert (name, tenant) == ("training_budget", "owner")
        return training_budget(**fields)


@pytest.fixture
def kind(tmp_path: Path) -> FinetuneKind:
    return FinetuneKind(Settings(data_dir=tmp_path), calculations=Planned(), files=None)  # type: ignore[arg-type]


def resolved(kind: FinetuneKind, **fields: Any) -> Mapping[str, Any]:
    return kind.resolve("owner", FinetuneFields.model_validate(terms(**fields))).model_dump()


def test_what_is_left_out_is_chosen_by_the_number_of_rows(kind: FinetuneKind) -> None:
    nothing = {"batch": None, "steps": None, "method": None, "delta": 1e-6}
    for rows, method, batch, steps in (
        (40, "head", 10, 20), (1_000, "head", 250, 20), (9_999, "head", 2_000, 25), (10_000, "lora", 2_000, 25),
        (60_000, "lora", 2_000, 150),
    ):  # fmt: skip
        found = resolved(kind, rows=rows, **nothing)
        assert (found["method"], found["batch"], found["steps"], found["epochs"]) == (method, batch, steps, None)
    assert resolved(kind, **nothing | {"epochs": 2.0})["steps"] == 8
    assert resolved(kind, method="rgp")["method"] == "rgp"


def test_shares_of_the_classes_are_declared_or_paid_for(kind: FinetuneKind) -> None:
    for shares in ([0.9], [0.5, 0.4], [0.5, 0.3, 0.2], [0.0, 1.0], [-0.1, 1.1], "walrus", [float("nan"), 0.5]):
        with pytest.raises((InvalidInput, ValidationError)) as refused:
            resolved(kind, class_shares=shares)
        assert "class_shares" in str(getattr(refused.value, "field", refused.value))
    with pytest.raises(InvalidInput):
        resolved(kind, class_shares=[0.5, 0.5], class_weights="none")


def test_the_price_and_the_work_are_of_the_same_plan(kind: FinetuneKind, tmp_path: Path) -> None:
    costs = {}
    for said in ({}, {"class_shares": [0.95, 0.05]}, {"class_weights": "none"}):
        fields = dict(resolved(kind, **said))
        price = asyncio.run(kind.price("owner", fields))
        spec = kind.spec(fields | dict(price.fields), Outputs("owner", tmp_path / "a.safetensors"))
        assert spec.budget == budget_of(price.fields["budget"])
        assert spec.hyperparameters.is_counted is (spec.budget.plan.counts_epsilon_nano > 0) is (not said)
        assert {"method", "batch", "steps"} <= price.facts.keys()
        costs[str(said)] = price.facts["noise_multiplier"]
    counted, declared, unweighted = costs.values()
    assert counted > declared == unweighted


def test_labels_as_whole_numbers_are_texts_from_there_on(kind: FinetuneKind) -> None:
    rows = [{"text": row["text"], "label": int(row["label"] == "home")} for row in labelled(40)]
    body = FinetuneRequest.model_validate(terms(labels=[0, 1]) | {"private": rows})
    assert kind.resolve("owner", body).labels == ["0", "1"]
    for labels in ([0, 0], [0, "0"], [0], [0, True], [0, 1.5], [0, None]):
        with pytest.raises((InvalidInput, ValidationError)):
            resolved(kind, labels=labels)


def test_a_message_about_a_wrong_file_fits_a_screen(kind: FinetuneKind) -> None:
    rows = [{"text": "walrus", "label": label} for label in (["walrus"] * 500 + ["home"] * 500)]
    body = FinetuneRequest.model_validate(terms(rows=1_000) | {"private": rows})
    with pytest.raises(BadCorpus) as refused:
        kind.resolve("owner", body)
    assert "500 rows" in refused.value.detail
    with pytest.raises(ValidationError) as invalid:
        FinetuneRequest.model_validate(terms(rows=1_000) | {"private": [{"text": 1, "label": 2.5}] * 1_000})
    for said in (refused.value.detail, str(invalid.value)):
        assert len(said) < 1_500
        assert "walrus" not in said
