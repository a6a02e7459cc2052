"""What a domain job refuses, leaves out and tells of a corpus; no error holds anything of it."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest
from corpus_kit import embedding_rows, json_lines, rows
from job_kit import domain_order, no_charge, quiet

from core.errors import BadCorpus, JobFilesLost
from core.mechanisms.sentences.domain_pack import DomainPack
from gpu_workers.domains import codes
from gpu_workers.domains import job as domain_job
from gpu_workers.domains.spec import Embedded
from gpu_workers.jobs import corpus
from gpu_workers.jobs.protocol import JobOrder

SECRET = "walrus"
pytestmark = pytest.mark.usefixtures("few_steps")


def survey(content: bytes, *, documents_max: int = 1000, chars_max: int = 1000) -> corpus.Survey:
    chunks = [content[start : start + 1000] for start in range(0, len(content), 1000)]
    return corpus.survey(corpus.corpus_lines(chunks), documents_max=documents_max, chars_max=chars_max, labelled=True)


def test_a_row_that_cannot_be_used_is_reported_by_its_line() -> None:
    for content, reason, line in [
        (b"", "empty", None), (b"\n \n\r\n", "empty", None), (b"\xef\xbb\xbf", "empty", None),
        (b'{"text": "ok"}\n{"text": "walrus"\n', "malformed-json", 2),
        (b'{"text": "ok"}\n\nwalrus', "malformed-json", 3), (b'{"text": NaN}', "malformed-json", 1),
        ('{"text": "wälrus"}'.encode("latin-1"), "not-utf-8", 1),
        ('{"text": "walrus"}'.encode("utf-16"), "not-utf-8", 1), (b'["walrus"]', "wrong-row", 1),
        (b'{"txt": "walrus"}', "wrong-row", 1), (b'{"text": "walrus", "sentences": ["walrus"]}', "wrong-row", 1),
        (b'{"text": 3}', "wrong-row", 1), (b'{"sentences": "walrus"}', "wrong-row", 1),
        (b'{"sentences": ["walrus", 3]}', "wrong-row", 1), (b'{"embeddings": []}', "wrong-row", 1),
        (b'{"text": "ok"}\n{"embeddings": [[1, 2]]}', "mixed-rows", 2),
        (b'{"text": "ok", "label": "a"}\n{"text": "ok", "label": 3}', "wrong-row", 2),
        (b'{"text": "ok", "label": ["walrus"]}', "wrong-row", 1),
        (b'{"text": "ok", "label": "' + b"walrus" * 34 + b'"}', "wrong-row", 1),
        (b'{"text": "' + b"walrus" * 200 + b'"}', "document-too-long", 1),
    ]:  # fmt: skip
        with pytest.raises(BadCorpus) as found:
            survey(content)
        assert (found.value.reason, found.value.line) == (reason, line)
        assert SECRET not in str(found.value)
        assert SECRET not in repr(found.value.__dict__)


def test_a_label_is_optional_and_belongs_to_domains_alone() -> None:
    for label in ["null", '""', '"' + "ä" * 200 + '"']:
        row = f'{{"text": "ok", "label": {label}}}'.encode()
        assert corpus.parse(row, 1, chars_max=10, labelled=True).label == (orjson.loads(label) or "")
        assert corpus.parse(b'{"text": "ok", "label": 3}', 1, chars_max=10) == ("text", "ok", "")


def test_lines_across_chunks() -> None:
    chunks = [b"ab", b"c\n\n  \nde", b"f\r\n", b"g"]
    assert list(corpus.corpus_lines(chunks)) == [(1, b"abc"), (4, b"def"), (5, b"g")]
    assert list(corpus.corpus_lines([])) == []


def test_a_corpus_beyond_the_limits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "LINE_BYTES_MAX", 5000)
    monkeypatch.setattr(corpus, "ROWS_MAX", 3)
    for content, reason, line in [
        (b'{"text": "ok"}\n' + b"w" * 6000, "line-too-long", 2),
        (b'{"text": "a"}\n' * 4, "too-many-rows", None),
    ]:
        with pytest.raises(BadCorpus) as found:
            survey(content)
        assert (found.value.reason, found.value.line) == (reason, line)


def test_a_sample_does_not_depend_on_the_order() -> None:
    made = rows(300)
    shuffled = made.copy()
    random.Random(3).shuffle(shuffled)
    one, other = survey(json_lines(made), documents_max=100), survey(json_lines(shuffled), documents_max=100)
    assert len(one.chosen) == 100
    assert {made[line - 1]["text"] for line in one.chosen} == {shuffled[line - 1]["text"] for line in other.chosen}


def test_repeated_rows_are_counted_once_chosen() -> None:
    found = survey(json_lines(rows(50) * 3))
    assert (found.rows, found.repeated, len(found.chosen)) == (150, 100, 50)


def test_embeddings_that_cannot_be_used() -> None:
    for content, reason in [
        ([[1.0, 2.0], [1.0]], "ragged"), ([[1.0], [1.0]], "wrong-dimension"), ([[0.0, 0.0]], "not-finite"),
        ([[1e308, 1e308]], "not-finite"), ([["1", 2.0]], "wrong-row"), ([[True, 2.0]], "wrong-row"),
        ([1.0, 2.0], "wrong-row"),
    ]:  # fmt: skip
        with pytest.raises(BadCorpus) as found:
            corpus.vectors(content, 5, dimension=None)
        assert (found.value.reason, found.value.line) == (reason, 5)
        if reason == "ragged":
            with pytest.raises(BadCorpus, match="same dimension"):
                corpus.vectors([[1.0, 2.0, 3.0]], 5, dimension=2)


def failure(job: JobOrder) -> BadCorpus:
    with pytest.raises(BadCorpus) as found:
        domain_job.run(job, quiet, no_charge)
    assert not Path(job.spec.targets[0]).exists()
    return found.value


def test_a_pack_of_the_callers_own_vectors_is_the_same_each_time(tmp_path: Path) -> None:
    updates: list[tuple[str, float]] = []
    made = [*embedding_rows(120, dimension=8), *embedding_rows(20, dimension=8, sentences=3, seed=2)]
    job = domain_order(tmp_path / "job", made)
    result = domain_job.run(job, lambda stage, fraction: updates.append((stage, fraction)), no_charge)
    pack = DomainPack.load(tmp_path / "job" / "law.safetensors")
    other = domain_order(tmp_path / "other", made)
    domain_job.run(other, quiet, no_charge)
    assert np.array_equal(DomainPack.load(Path(other.spec.targets[0])).candidates, pack.candidates)
    assert (pack.info.dimension, pack.info.encoder) == (8, "caller")
    assert result["documents"] == 120
    assert result["warnings"] == [{"code": "short-documents", "count": 20, "share": round(20 / 140, 4)}]
    fractions = [fraction for _, fraction in updates]
    assert fractions == sorted(fractions)
    assert fractions[-1] < 1.0
    assert "20 of 140 rows" in (tmp_path / "job" / "law.md").read_text()


def test_labels_are_counted_and_stay_out_of_every_file_and_a_swapped_checkpoint_is_refused(tmp_path: Path) -> None:
    labels = [f"{SECRET}/{index % 2}" for index in range(100)] + [f"rare {SECRET} {index}" for index in range(30)]
    made = [row | {"label": label} for row, label in zip(embedding_rows(130), labels, strict=True)]
    job = domain_order(tmp_path / "job", made)
    result = domain_job.run(job, quiet, no_charge)
    assert result["labelled_documents"] == 100
    assert "| documents with a label | 100 |" in (tmp_path / "job" / "law.md").read_text()
    assert SECRET not in str(result)
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes()

    first, second = job.folder / "shard-000000", job.folder / "shard-000001"
    for broken in (second.read_bytes(), first.read_bytes()[:-40]):
        first.write_bytes(broken)
        with pytest.raises(JobFilesLost):
            domain_job.run(job, quiet, no_charge)


def test_labels_that_tell_nothing_apart_are_not_used() -> None:
    assert domain_job.class_numbers(["b"] * 10 + ["a"] * 12 + ["c"] * 9 + [""]) == ["1"] * 10 + ["0"] * 12 + [""] * 10
    assert domain_job.class_numbers(["a"] * 12 + ["c"] * 9) == [""] * 21


def test_a_corpus_that_makes_no_pack_is_refused(tmp_path: Path) -> None:
    nearly = orjson.loads(orjson.dumps(embedding_rows(60)))
    for row in nearly:
        row["embeddings"][0][0] += 1e-5
    for index, (made, reason) in enumerate(
        [
            (embedding_rows(1), "too-few-documents"),
            (embedding_rows(99), "too-few-documents"),
            ([*embedding_rows(60), *embedding_rows(60, sentences=7, seed=2)], "too-few-documents"),
            ([*embedding_rows(60), *nearly], "near-duplicates"),
            ([*embedding_rows(150), *embedding_rows(1, dimension=8, seed=9)], "wrong-dimension"),
        ]
    ):
        found = failure(domain_order(tmp_path / f"job-{index}", made))
        assert (found.reason, found.line) == (reason, 151 if reason == "wrong-dimension" else None)


def test_near_duplicates_are_left_out_but_the_first() -> None:
    means = np.eye(5, dtype=np.float32)[[0, 1, 0, 2, 1, 0]]
    vectors = np.repeat(means, 8, axis=0)
    kept, near = domain_job.without_near_duplicates(Embedded(vectors, np.full(6, 8), list("abcdef")), 0.98)
    assert (len(kept.lengths), near, kept.labels) == (3, 3, ["a", "b", "d"])
    assert np.array_equal(kept.means(), means[[0, 1, 3]])


@pytest.mark.slow("crash")
def test_a_second_attempt_goes_on_from_the_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = domain_order(tmp_path / "job", embedding_rows(350))
    read = corpus.vectors
    calls = 0

    def dying(content, number, *, dimension):
        nonlocal calls
        calls += 1
        if calls == 250:
            raise KeyboardInterrupt
        return read(content, number, dimension=dimension)

    monkeypatch.setattr(corpus, "vectors", dying)
    with pytest.raises(KeyboardInterrupt):
        domain_job.run(job, quiet, no_charge)
    kept = {path.name: path.stat().st_mtime_ns for path in job.folder.glob("shard-*")}
    assert sorted(kept) == ["shard-000000", "shard-000001"]
    calls = 1000
    domain_job.run(job, quiet, no_charge)
    assert calls == 1000 + 150
    assert {path.name: path.stat().st_mtime_ns for path in job.folder.glob("shard-00000[01]")} == kept


@pytest.mark.slow("training")
def test_fewer_steps_make_another_pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codes, "STEPS_MIN", 16)  # what a corpus of this size takes without the field
    made = []
    for steps in (600, 16, 10):
        job = domain_order(tmp_path / str(steps), embedding_rows(120, dimension=8), steps=steps)
        domain_job.run(job, quiet, no_charge)
        made.append(DomainPack.load(Path(job.spec.targets[0])).code_tables[0].vectors)
    assert np.array_equal(made[0], made[1])
    assert not np.array_equal(made[1], made[2])


@pytest.mark.slow("training")
def test_a_large_corpus_is_read_in_little_memory() -> None:
    """200 MB of rows; memory does not grow with them."""
    import tracemalloc

    row = orjson.dumps({"text": "A public sentence of no importance at all. " * 45}) + b"\n"

    def chunks():
        for index in range(1000):
            yield row.replace(b"public", b"p%d" % index, 1) * 100

    tracemalloc.start()
    found = corpus.survey(corpus.corpus_lines(chunks()), documents_max=500, chars_max=10_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.rows == 100_000
    assert peak < 20e6


def test_a_corpus_that_needs_too_much_memory_is_refused_before_it_is_built(tmp_path: Path) -> None:
    order = replace(domain_order(tmp_path / "job", embedding_rows(110)), memory_bytes_max=1 << 20)
    with pytest.raises(BadCorpus) as refused:
        domain_job.run(order, quiet, no_charge)
    assert refused.value.reason == "out-of-memory"
    assert not Path(order.spec.targets[0]).exists()
