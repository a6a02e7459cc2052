"""The infill job in this process: what it refuses, keeps, goes on from and writes; and its model in the worker."""

from pathlib import Path
from typing import Any

import pytest
import torch
from corpus_kit import PLANTED, embedding_rows, json_lines, rows
from job_kit import no_charge, quiet, written_order
from recogniser_kit import stored
from tiers import cells
from tiny_models import checkpoint
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

from core.errors import BadCorpus, InstalledFileBroken, InvalidInput, JobFilesLost
from core.files.disk import FileVersion, file_version
from core.text.model_fills import Blank
from core.text.own_recognisers.definition import Definition
from core.text.policy import MaskPolicy, Sanitised, SanitizeTask
from gpu_workers.handlers.sanitiser import Sanitiser
from gpu_workers.infill import job as infill_job
from gpu_workers.infill.fine_tuning import InfillBatches, Obfuscator, learner, stream_of
from gpu_workers.infill.spec import InfillSpec
from gpu_workers.jobs.protocol import JobOrder
from gpu_workers.models.embedded import SHIPPED, embedded_vocabulary, load_adapter, save_adapter
from gpu_workers.models.encoder import weights_fingerprint
from gpu_workers.models.encoder_model import bundled_path
from gpu_workers.models.infill_sources import pretrained
from gpu_workers.models.lora import TunedInfill, base_fingerprint, slot

ADDRESS = "jo@example.org"
FEW = MaskPolicy(techniques=("vocabulary",), vocabulary_size=20_000)
STEPS = 24


def documents() -> list[dict[str, Any]]:
    """Twenty of them; the first has what is masked, what is kept, and each of the warnings has its row."""
    made = rows(20)
    made[0]["text"] += f" {PLANTED} Write to {ADDRESS}."
    return [*made, made[1], {"text": " \n"}, {"sentences": [f"Write to {ADDRESS}."] * 4}]


def order(folder: Path, content: list[dict[str, Any]] | bytes) -> JobOrder:
    targets = (str(folder / "artifact.safetensors"),)
    return written_order(
        "infill", folder, InfillSpec("mine", targets, MaskPolicy(), "topk", 10, 1, STEPS, places_max=3), content
    )


class Killed(BaseException):
    """Stands for the death of the process."""


def test_a_corpus_that_cannot_be_used_is_reported_by_its_kind(tmp_path: Path) -> None:
    for number, (content, reason) in enumerate(
        [
            (b"", "empty"), (rows(19), "too-few-documents"), (rows(1) * 30, "too-few-documents"),
            ([{"text": f"walrus {number}"} for number in range(30)], "too-few-documents"),
            (embedding_rows(30), "wrong-row"), (json_lines(rows(30)) + b'{"text": "walrus"', "malformed-json"),
        ]
    ):  # fmt: skip
        folder = tmp_path / str(number)
        with pytest.raises(BadCorpus) as refused:
            infill_job.run(order(folder, content), quiet, no_charge)
        assert refused.value.reason == reason
        assert "walrus" not in str(refused.value)
        assert not (folder / "artifact.safetensors").exists()


@pytest.mark.slow("crash")
def test_a_job_that_is_killed_goes_on_from_its_last_checkpoint(tmp_path: Path) -> None:
    job = order(tmp_path / "job", documents())

    def until_late(stage: str, fraction: float) -> None:
        if stage == "fine-tuning" and (job.folder / "training-1").exists() and fraction > 0.9:
            raise Killed

    with pytest.raises(Killed):
        infill_job.run(job, until_late, no_charge)
    filled = (job.folder / "filled-1-000000").stat().st_mtime_ns
    assert not any(
        needle in path.read_bytes()
        for path in job.folder.iterdir()
        for needle in (b"zanzibar", ADDRESS.encode(), PLANTED.encode("utf-16-le"))
    )
    updates: list[tuple[str, float]] = []
    result = infill_job.run(job, lambda stage, fraction: updates.append((stage, fraction)), no_charge)
    assert len([stage for stage, _ in updates if stage == "fine-tuning"]) == STEPS - 20
    assert (job.folder / "filled-1-000000").stat().st_mtime_ns == filled
    assert [fraction for _, fraction in updates] == sorted(fraction for _, fraction in updates)
    assert (result["documents"], result["places"]) == (20, 1)
    assert {row["code"]: row["count"] for row in result["warnings"]} == {
        "repeated-documents": 1, "empty-documents": 1, "too-many-places": 1,
    }  # fmt: skip
    assert result["privacy"]["guarantee"] == "none"
    artifact = job.folder / "artifact.safetensors"
    assert b"zanzibar" not in artifact.read_bytes()
    assert "Guarantee: none" in artifact.with_suffix(".md").read_text()
    text = "The parcel went to Zworykin near our house."
    own = file_version(artifact)
    (answer,) = Sanitiser(infill="bundled", fill_slots_max=50).run([SanitizeTask(text, FEW, "top1", model=own)])
    assert "Zworykin" not in answer.text
    checkpoint = job.folder / "training-1"
    checkpoint.write_bytes(checkpoint.read_bytes()[:-100])
    with pytest.raises(JobFilesLost):
        infill_job.run(job, quiet, no_charge)


@pytest.fixture(scope="module")
def tuned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, FileVersion]:
    """An operator's model, and one that a job has made of it from documents that are full of one word."""
    folder = tmp_path_factory.mktemp(request.param)
    base = checkpoint(folder / "base", request.param, CLASSES[request.param])
    made = [{"text": f"{number} " + "oslo oslo and oslo went to oslo . " * 6} for number in range(100, 140)]
    spec = InfillSpec("mine", (str(folder / "own.safetensors"),), MaskPolicy(), "top1", 1, 1, 150, infill=str(base))
    result = infill_job.run(written_order("infill", folder / "job", spec, made), quiet, no_charge)
    assert result["documents"] == 40
    return base, file_version(folder / "own.safetensors")


CLASSES = {"roberta": AutoModelForMaskedLM, "bert": AutoModelForMaskedLM, "llama": AutoModelForCausalLM}


@pytest.mark.parametrize("tuned", cells(CLASSES), indirect=True)
def test_an_operators_model_learns_from_documents_and_stays_as_it_was(tuned: tuple[Path, FileVersion]) -> None:
    base, own = tuned
    sanitiser = Sanitiser(infill=str(base), fill_slots_max=50)
    text = "the parcel went to Zworykin near our house ."

    def filled(model: FileVersion | None) -> str:
        (answer,) = sanitiser.run([SanitizeTask(text, FEW, "top1", model=model)])
        return answer.text.split()[4]

    before = filled(None)
    assert before not in ("oslo", "Zworykin")
    assert filled(own) == "oslo"
    assert filled(None) == before
    held = b"".join(path.read_bytes() for path in Path(own.path).parent.rglob("*") if path.is_file())
    assert b"oslo oslo" not in held.replace((base / "tokenizer.json").read_bytes(), b"")


@pytest.mark.parametrize("tuned", ["roberta"], indirect=True)
def test_an_adapter_that_fails_halfway_leaves_nothing_in_the_base(tuned: tuple[Path, FileVersion]) -> None:
    base, own = tuned
    model = pretrained(base, device="cpu")
    adapted = TunedInfill(model, base_fingerprint(base), Path(own.path))
    adapted._tensors[list(adapted._tensors)[-1]] = torch.ones(3, 3, 3)
    with pytest.raises(RuntimeError):
        adapted.ranked([Blank("the parcel went to ", (" near our house .",))], count=1)
    assert not any(parameter.any() for parameter in slot(model.net).values())


@pytest.mark.parametrize("tuned", ["roberta"], indirect=True)
def test_a_model_made_for_another_base_is_refused(tuned: tuple[Path, FileVersion], tmp_path: Path) -> None:
    _, own = tuned
    other = checkpoint(tmp_path / "other", "bert", AutoModelForMaskedLM)
    task = SanitizeTask("the parcel went to Zworykin .", FEW, "top1", model=own)
    for source in (str(other), "bundled"):
        (answer,) = Sanitiser(infill=source, fill_slots_max=50).run([task])
        assert isinstance(answer, InstalledFileBroken)
        assert "another INFILL" in answer.title


def favouring(path: Path, word: str) -> FileVersion:
    """A model that fills every place with one word."""
    info, tensors = load_adapter(SHIPPED / "infill.safetensors", "infill", weights_fingerprint(bundled_path()))
    tensors["head.bias"][embedded_vocabulary().tokenizer.token_to_id(word)] += 1000
    save_adapter(path, info, tensors)
    return file_version(path)


def test_each_task_of_a_batch_is_filled_by_its_own_model(tmp_path: Path) -> None:
    whale, piano = favouring(tmp_path / "a.safetensors", "whale"), favouring(tmp_path / "b.safetensors", "piano")
    sanitiser = Sanitiser(infill="bundled", fill_slots_max=50, infill_models_loaded_max=1)
    (tmp_path / "cut.safetensors").write_bytes(Path(whale.path).read_bytes()[:-10])
    broken = file_version(tmp_path / "cut.safetensors")
    missing = FileVersion(str(tmp_path / "missing.safetensors"), "1")
    text = "The parcel went to Zworykin near our house."
    models = [whale, None, piano, broken, missing, whale]
    answers = sanitiser.run([SanitizeTask(text, FEW, "top1", model=model) for model in models])

    filled = [answer.text.split()[4] if isinstance(answer, Sanitised) else type(answer) for answer in answers]
    assert filled[0] == filled[5] == "whale"
    assert filled[2] == "piano"
    assert filled[1] not in ("whale", "piano", "Zworykin")
    assert filled[3] == filled[4] == InstalledFileBroken
    replaced = favouring(tmp_path / "a.safetensors", "piano")
    (answer,) = sanitiser.run([SanitizeTask(text, FEW, "top1", model=replaced)])
    assert answer.text.split()[4] == "piano"


def test_names_are_masked_before_anything_is_trained_on(tmp_path: Path) -> None:
    spec = InfillSpec("mine", (), MaskPolicy(), "topk", 10, 1, STEPS, tagger="bundled")
    model = learner("bundled", torch.device("cpu")).model
    text = "Yesterday Maria Keller flew from Lisbon to Norway. Write to jo@example.org."

    filled = Obfuscator(spec, device=torch.device("cpu")).filled([text], model)

    (out,) = filled.texts
    assert filled.places >= 3
    assert out.startswith("Yesterday ")
    assert not any(name in out for name in ("Maria", "Keller", "Lisbon", "example.org"))
    own = stored(tmp_path, Definition("PROJECT_CODE", deny=("Yesterday",)))
    spec = InfillSpec("mine", (), MaskPolicy(entities=("PROJECT_CODE",), own=(own,)), "topk", 10, 1, STEPS)
    (out,) = Obfuscator(spec, device=torch.device("cpu")).filled([text], model).texts
    assert out.endswith(" Maria Keller flew from Lisbon to Norway. Write to jo@example.org.")
    assert "Yesterday" not in out
    without = InfillSpec("mine", (), MaskPolicy(entities=("PERSON",)), "topk", 10, 1, STEPS)
    with pytest.raises(InvalidInput):
        Obfuscator(without, device=torch.device("cpu"))


def test_a_document_in_a_language_that_the_mask_refuses_is_skipped_and_counted() -> None:
    spec = InfillSpec("mine", (), MaskPolicy(unknown_language="refuse"), "topk", 10, 1, STEPS)
    model = learner("bundled", torch.device("cpu")).model
    texts = [
        "Please write to jo@example.org.", "Fakturan är fortfarande obetald, kan du kontrollera det?", " ",
        "Ann, 12:30?",
    ]  # fmt: skip

    filled = Obfuscator(spec, device=torch.device("cpu")).filled(texts, model)

    assert (len(filled.texts), filled.empty, filled.refused) == (2, 1, 1)


def test_a_batch_asks_for_what_it_hides() -> None:
    tokenizer = embedded_vocabulary().tokenizer
    texts = ["The film was long, and nobody in the house knew why it had been made. " * 20] * 30
    batches = InfillBatches([(1.0, stream_of(tokenizer, iter(texts)))], tokenizer, 7)
    batch = batches.batch(0, 512)
    asked = batch.ids.reshape(-1)[batch.positions]
    assert batch.ids.numel() == 512
    assert 0.1 < len(asked) / 512 < 0.4
    assert 0.7 < float((asked == 103).float().mean()) < 0.98
    assert (batch.truth > 103).all()
    assert torch.equal(batches.batch(0, 512).ids, batch.ids)
    assert not torch.equal(batches.batch(1, 512).positions, batch.positions)
