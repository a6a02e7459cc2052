"""The job that trains a text classifier on private texts and labels, and the bodies of `POST /jobs/finetune`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields as fields_of
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from core.amounts import delta_of
from core.errors import InvalidInput
from core.finetune.inputs import (
    BALANCED,
    LABELS_MAX,
    PIECES,
    PIECES_MAX,
    PIECES_MIN,
    PUBLIC,
    RANK,
    RANK_MAX,
    Hyperparameters,
    RowTerms,
    check_labels,
    read_splits,
)
from core.ledger.records import Charge
from core.state.stored_files import CLASSIFIERS
from gpu_workers.finetune.spec import BUNDLED, FinetuneSpec
from service.accounting.calculations import Calculations
from service.config.data_dir import NAME
from service.config.settings import ROWS_TAKEN, Settings
from service.files.stored import StoredFiles
from service.http.strict import AtMost, Strict
from service.jobs.kind import JobKind, JobPrice, Outputs
from service.releases.request import check_epsilon

if TYPE_CHECKING:
    from core.finetune.plan import TrainingBudget


# Rules of thumb, for what a request leaves out. A quarter of the rows in a batch costs little more for replacing a row
# than for adding one, and has most of the signal of full batches (docs/reference/benchmarks/fine-tuning.md).
HEAD_ROWS, BATCH_MAX, EPOCHS = 10_000, 2_000, 5
Share = Annotated[float, Field(gt=0, lt=1)]


class FinetuneFields(Strict):
    """Everything but the texts. All of it is public: it must not be derived from the private rows."""

    name: str = Field(pattern=rf"^{NAME}$")
    labels: Annotated[list[Annotated[str, Field(max_length=256)] | int], AtMost(LABELS_MAX)] = Field(
        description="The labels, declared; a whole number stands for its digits."
    )
    pairs: bool = Field(False, description="Whether a row is a pair, `text` and `text_pair`.")
    method: Literal["head", "lora", "rgp", "full"] | None = Field(
        None, description=f"Default: `head` for fewer than {HEAD_ROWS} rows, else `lora`."
    )
    model: str = Field(BUNDLED, max_length=64, description="The encoder: one of `finetune` in GET /models.")
    epsilon: float = Field(gt=0, description="Of the run for one row more or less; replacing one costs more.")
    delta: float = Field(gt=0, lt=1)
    rows: int = Field(ge=1, description="The number of private rows, declared: it is public.")
    batch: int | None = Field(
        None, ge=1, description=f"Rows expected in a step; default: a quarter of the rows, at most {BATCH_MAX}."
    )
    sampling: Literal["poisson", "random_allocation"] = Field(
        "poisson",
        description="`poisson`: each row joins a step by a coin of bias batch / rows. `random_allocation`: each row "
        "joins exactly one of the round(rows / batch) steps of an epoch; whole epochs only.",
    )
    epochs: float | None = Field(
        None, gt=0, description=f"How often a row is read, as expected; or `steps`; default {EPOCHS}."
    )
    steps: int | None = Field(None, ge=1)
    rank: int = Field(RANK, ge=1, le=RANK_MAX, description="Of adapters or carriers; others have none.")
    pieces_max: int = Field(PIECES, ge=PIECES_MIN, le=PIECES_MAX, description="Word pieces read of a text.")
    learning_rate: float | None = Field(
        None, gt=0, le=1, description="For the encoder's part, or of `head`; by default the method's own."
    )
    weight_decay: float = Field(
        0.0, ge=0, le=1, description="Decoupled, as in AdamW: a step shrinks the trained weights by rate times this."
    )
    class_weights: Literal["balanced", "none"] = Field(
        "balanced", description="`balanced`: all labels weigh the same together, whatever their shares."
    )
    class_shares: Annotated[list[Share], AtMost(LABELS_MAX)] | None = Field(
        None,
        description="The share of each label, in their order: public. Without it, the rows of the labels are counted "
        "under differential privacy, for a sixteenth of epsilon, at most 0.5.",
    )
    subject: str | None = Field(None, min_length=1, max_length=256)


class LabelledRow(Strict):
    text: str
    text_pair: str | None = None
    label: str | int


class FinetuneRequest(FinetuneFields):
    """Body of `POST /jobs/finetune` as JSON."""

    private: Annotated[list[LabelledRow], AtMost(ROWS_TAKEN)]
    public: Annotated[list[LabelledRow], AtMost(ROWS_TAKEN)] = Field(default_factory=list)

    def all_rows(self) -> Iterator[dict[str, Any]]:
        """The rows of both splits, as JSON lines have them."""
        yield from (row.model_dump(exclude_none=True) for row in self.private)
        yield from (row.model_dump(exclude_none=True) | {"split": PUBLIC} for row in self.public)


class FinetuneEstimate(FinetuneFields):
    """The same body for its price; rows are not read."""

    private: Annotated[list[dict[str, Any]], AtMost(ROWS_TAKEN)] | None = None
    public: Annotated[list[dict[str, Any]], AtMost(ROWS_TAKEN)] | None = None


_PUBLIC_ROWS_MAX = 10_000  # metrics are computed on them about six times
_STEPS_MAX = 20_000  # at some 4 seconds a step on a processor, the day of JOB_SECONDS_MAX
_PLAN = ("epsilon", "delta", "rows", "batch", "steps", "sampling")
_HYPERPARAMETERS = tuple(field.name for field in fields_of(Hyperparameters))


def _hyperparameters(fields: Mapping[str, Any]) -> Hyperparameters:
    found = {name: fields[name] for name in _HYPERPARAMETERS if name in fields}
    shares = found.get("class_shares")
    return Hyperparameters(**found | {"class_shares": None if shares is None else tuple(shares)})


def _check_shares(fields: FinetuneFields) -> None:
    """Raises InvalidInput for shares that are not those of the labels."""
    shares = fields.class_shares
    if shares is None:
        return
    if fields.class_weights != BALANCED:
        raise InvalidInput("only balanced class_weights use shares", field="class_shares")
    if len(shares) != len(fields.labels):
        raise InvalidInput("give one share for each label, in their order", field="class_shares")
    if abs(sum(shares) - 1) > _SHARES_OFF_MAX:
        raise InvalidInput("the shares of all labels add up to 1", field="class_shares")


_SHARES_OFF_MAX = 0.01


class FinetuneKind(JobKind):
    """Guarantee: (epsilon, delta)-DP for one row of the private split, once a job.

    The tenant's record account is charged the certified epsilon of the same run for replacing a row.
    """

    name = "finetune"
    summary = "Fine-tune a text classifier under differential privacy"
    description = (
        "As `POST /jobs/domain`, with a tenant's key alone. Holds its cost now and spends it before its first step."
    )
    fields = FinetuneFields
    body = FinetuneRequest
    rows_description = 'Rows {"text", "label"}, of pairs "text_pair", public ones with "split": "public".'
    entry_point = "gpu_workers.finetune.job:run"
    estimate = FinetuneEstimate
    marks = frozenset({"labels"})
    kept_limit = "classifiers_per_tenant_max"

    def __init__(self, settings: Settings, *, calculations: Calculations, files: StoredFiles) -> None:
        self._settings = settings
        self._files = files
        self._calculations = calculations

    def rows(self, body: FinetuneRequest) -> Iterable[dict[str, Any]]:
        return body.all_rows()

    def resolve(self, owner: str, fields: FinetuneFields) -> FinetuneFields:  # noqa: ARG002
        """The fields with the number of steps, once they and the rows of a JSON body can be used.

        Raises InvalidInput, BadCorpus; OutOfRange with the smallest epsilon that is enough.
        """
        resolved = self._with_steps(fields)
        if isinstance(resolved, FinetuneRequest):
            terms = RowTerms(
                labels=tuple(map(str, resolved.labels)),
                pairs=resolved.pairs,
                rows=resolved.rows,
                public_rows_max=_PUBLIC_ROWS_MAX,
                text_chars_max=self._settings.document_chars_max,
            )
            read_splits(enumerate(resolved.all_rows(), start=1), terms)
        return resolved

    async def kept(self, owner: str) -> set[str]:
        return await self._files.index.names(owner, CLASSIFIERS)

    def installs(self, fields: Mapping[str, Any]) -> tuple[str, str]:
        return CLASSIFIERS, fields["name"]

    async def price(self, owner: str, fields: Mapping[str, Any]) -> JobPrice:
        """One event for the whole run. The job runs the very plan that is charged.

        The noise is found in a process of its own: it may take seconds. Raises OutOfRange; QueueFull,
        CalculationTimeout, NotStarted.
        """
        budget: TrainingBudget = await self._calculations.run(
            "training_budget",
            tenant=owner,
            counted=_hyperparameters(fields).is_counted,
            **{name: fields[name] for name in _PLAN},
        )
        plan = budget.plan
        return JobPrice(
            [Charge(budget.event, fields["subject"])],
            fields={"budget": budget.stored()},
            facts={
                "delta": delta_of(budget.delta_femto),
                "method": fields["method"],
                "batch": plan.batch,
                "noise_multiplier": plan.noise_multiplier,
                "steps": plan.steps,
                "certificate": {"adjacency": "add-remove", "epsilon": plan.certificate.epsilon, "delta": plan.delta},
            },
        )

    def spec(self, fields: Mapping[str, Any], outputs: Outputs) -> FinetuneSpec:
        """Raises KeyError for an encoder that is no longer the operator's."""
        from core.finetune.plan import budget_of  # imported late: scipy

        model = fields["model"]
        return FinetuneSpec(
            name=fields["name"],
            targets=(str(outputs.artifact),),
            labels=tuple(fields["labels"]),
            pairs=fields["pairs"],
            method=fields["method"],
            model=model,
            model_path=None if model == BUNDLED else str(self._settings.finetune_models[model]),
            budget=budget_of(fields["budget"]),
            hyperparameters=_hyperparameters(fields),
            public_rows_max=_PUBLIC_ROWS_MAX,
            text_chars_max=self._settings.document_chars_max,
            device=self._settings.devices[0],
            threads=self._settings.job_threads,
        )

    def _with_steps(self, fields: FinetuneFields) -> FinetuneFields:
        """The fields with their steps, once the parameters can be used; no row is looked at."""
        # imported late: scipy, which a front end without such jobs does without
        from core.finetune.plan import Sampling, check_training, steps_of

        settings = self._settings
        labels = [str(label) for label in fields.labels]
        check_labels(labels)
        _check_shares(fields)
        self._check_model(fields.model)
        if fields.rows > settings.finetune_rows_max:
            raise InvalidInput(f"at most {settings.finetune_rows_max} rows", field="rows")
        if fields.epochs is not None and fields.steps is not None:
            raise InvalidInput("give one of epochs and steps", field="epochs")
        batch = fields.batch or max(1, min(fields.rows // 4, BATCH_MAX))
        method = fields.method or ("head" if fields.rows < HEAD_ROWS else "lora")
        sampling, steps = Sampling(fields.sampling), fields.steps
        if steps is None:
            epochs = EPOCHS if fields.epochs is None else fields.epochs
            steps = steps_of(rows=fields.rows, batch=batch, epochs=epochs, sampling=sampling)
        if steps > _STEPS_MAX:
            raise InvalidInput(f"at most {_STEPS_MAX} steps", field="steps" if fields.steps else "epochs")
        check_epsilon(fields.epsilon, settings)
        found = {"labels": labels, "method": method, "batch": batch, "steps": steps, "epochs": None}
        resolved = fields.model_copy(update=found)
        check_training(**resolved.model_dump(include=set(_PLAN)) | {"sampling": sampling})
        return resolved

    def _check_model(self, name: str) -> None:
        """Raises InvalidInput for an encoder that is not the operator's, or that is no safetensors checkpoint."""
        if name == BUNDLED:
            return
        folder = self._settings.finetune_models.get(name)
        if folder is None:
            raise InvalidInput("no such encoder; GET /models lists them under `finetune`", field="model")
        if not any(folder.glob("*.safetensors")):
            raise InvalidInput("the encoder has no safetensors weights; other formats are not read", field="model")
