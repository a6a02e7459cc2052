"""The job that builds a domain pack from public documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import Field

from gpu_workers.domains.spec import DomainSpec, check_memory
from gpu_workers.jobs.corpus import LABEL_CHARS_MAX, SENTENCES_USED
from service.config.data_dir import NAME, names_in
from service.config.settings import ROWS_TAKEN, TEXTS_TAKEN, Settings
from service.domains.store import domains_folder, new_pack_path, pack_path
from service.http.strict import AtMost, Strict, Vector, exactly_one_of
from service.jobs.kind import JobKind, Outputs

UNSTATED = "not stated"


class CorpusRow(Strict):
    """One public document, as exactly one of text, sentences and embeddings."""

    text: str | None = None
    sentences: Annotated[list[str], AtMost(TEXTS_TAKEN)] | None = None
    embeddings: Annotated[list[Vector], AtMost(TEXTS_TAKEN)] | None = None
    label: str | None = Field(None, max_length=LABEL_CHARS_MAX, description="What the pack should keep apart.")

    _one_form = exactly_one_of("text", "sentences", "embeddings")


class DomainFields(Strict):
    name: str = Field(pattern=rf"^{NAME}$")
    source: str = Field(UNSTATED, min_length=1, max_length=500, description="Where the public documents are from.")
    licence: str = Field(UNSTATED, min_length=1, max_length=500)


class DomainRequest(DomainFields):
    """Body of `POST /jobs/domain` as JSON; `embeddings` holds one list of sentence embeddings a document."""

    documents: Annotated[list[CorpusRow], AtMost(ROWS_TAKEN)] | None = None
    embeddings: (
        Annotated[list[Annotated[list[Vector], AtMost(TEXTS_TAKEN), Field(min_length=1)]], AtMost(ROWS_TAKEN)] | None
    ) = None

    _one_corpus = exactly_one_of("documents", "embeddings")


class DomainKind(JobKind):
    """Guarantee: none is needed, the documents are public; it costs no budget."""

    name = "domain"
    summary = "Build a domain pack from public documents"
    description = "JSON, or JSON lines with `?name=`; the same `Idempotency-Key` and body again finds the same job."
    fields = DomainFields
    body = DomainRequest
    rows_description = 'Rows {"text"}, {"sentences"} or {"embeddings"}, each with an optional "label".'
    entry_point = "gpu_workers.domains.job:run"
    shared = True
    kept_limit = "domains_per_tenant_max"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def rows(self, body: DomainRequest) -> Iterable[dict[str, Any]]:
        yield from ({"embeddings": vectors} for vectors in body.embeddings or [])
        yield from (row.model_dump(exclude_none=True) for row in body.documents or [])

    def resolve(self, owner: str, fields: DomainFields) -> DomainFields:
        """The fields. Raises InvalidInput for a name that no new pack can have, BadCorpus for embeddings from which a
        pack cannot be built within a job's memory."""
        new_pack_path(self._settings.data_dir, owner, fields.name)
        limit = self._settings.job_memory_bytes_max
        if isinstance(fields, DomainRequest) and limit:
            documents = [row["embeddings"] for row in self.rows(fields) if "embeddings" in row]
            dimension = len(documents[0][0]) if documents and documents[0] else 0
            sentences = sum(min(len(document), SENTENCES_USED) for document in documents)
            check_memory(sentences=sentences, dimension=dimension, bytes_max=limit)
        return fields

    def kept(self, owner: str) -> set[str]:
        return names_in(domains_folder(self._settings.data_dir, owner))

    def spec(self, fields: Mapping[str, Any], outputs: Outputs) -> DomainSpec:
        pack = pack_path(self._settings.data_dir, outputs.owner, fields["name"])
        return domain_spec(self._settings, fields, (str(outputs.artifact), str(pack)))


def domain_spec(settings: Settings, fields: Mapping[str, Any], targets: tuple[str, ...]) -> DomainSpec:
    """The specification of a domain job that writes its pack to `targets`."""
    return DomainSpec(
        name=fields["name"],
        source=fields["source"],
        licence=fields["licence"],
        targets=targets,
        device=settings.devices[0],
        threads=settings.job_threads,
        encoder_path=str(settings.encoder_path) if settings.encoder_path else None,
        documents_max=settings.domain_documents_max,
        document_chars_max=settings.document_chars_max,
    )
