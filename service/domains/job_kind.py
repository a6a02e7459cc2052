"""The job that builds a domain pack from public documents."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import Field

from core.state.stored_files import DOMAINS
from gpu_workers.domains.spec import STEPS_MAX, STEPS_MIN, DomainSpec, check_memory
from gpu_workers.jobs.corpus import LABEL_CHARS_MAX, SENTENCES_USED
from service.config.data_dir import NAME
from service.config.settings import ROWS_TAKEN, TEXTS_TAKEN, Settings
from service.domains.store import check_new_name
from service.files.stored import StoredFiles
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
    steps: int = Field(
        STEPS_MAX,
        ge=STEPS_MIN,
        le=STEPS_MAX,
        exclude_if=lambda steps: steps == STEPS_MAX,  # a request without it is the same as before there was this field
        description="Of each training of the codes, at most; a corpus of fewer than 2,400 documents takes fewer. Fewer "
        "steps build a worse pack in less time, for a trial.",
    )


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

    def __init__(self, settings: Settings, *, files: StoredFiles) -> None:
        self._settings = settings
        self._files = files

    def rows(self, body: DomainRequest) -> Iterable[dict[str, Any]]:
        yield from ({"embeddings": vectors} for vectors in body.embeddings or [])
        yield from (row.model_dump(exclude_none=True) for row in body.documents or [])

    def resolve(self, owner: str, fields: DomainFields) -> DomainFields:  # noqa: ARG002
        """The fields. Raises InvalidInput for a name that no new pack can have, BadCorpus for embeddings from which a
        pack cannot be built within a job's memory."""
        check_new_name(fields.name)
        limit = self._settings.job_memory_bytes_max
        if isinstance(fields, DomainRequest) and limit:
            documents = [row["embeddings"] for row in self.rows(fields) if "embeddings" in row]
            dimension = len(documents[0][0]) if documents and documents[0] else 0
            sentences = sum(min(len(document), SENTENCES_USED) for document in documents)
            check_memory(sentences=sentences, dimension=dimension, bytes_max=limit)
        return fields

    async def kept(self, owner: str) -> set[str]:
        return await self._files.index.names(owner, DOMAINS)

    def installs(self, fields: Mapping[str, Any]) -> tuple[str, str]:
        return DOMAINS, fields["name"]

    def spec(self, fields: Mapping[str, Any], outputs: Outputs) -> DomainSpec:
        settings = self._settings
        return DomainSpec(
            name=fields["name"],
            source=fields["source"],
            licence=fields["licence"],
            targets=(str(outputs.artifact),),
            steps=fields.get("steps", STEPS_MAX),
            device=settings.devices[0],
            threads=settings.job_threads,
            encoder_path=str(settings.encoder_path) if settings.encoder_path else None,
            document_chars_max=settings.document_chars_max,
        )
