"""What a request for a private fine-tuning may say, what it costs, and what is refused before anything is held."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from core.errors import InvalidInput
from core.finetune.hyperparameters import PIECES, PIECES_MAX, PIECES_MIN, RANK, RANK_MAX
from core.finetune.rows import PUBLIC, RowTerms, check_labels, read_splits
from core.ledger.records import Charge
from service.config.settings import FINETUNE_BUNDLED, Settings
from service.domains.store import NAME
from service.house import House
from service.http.strict import Strict
from service.jobs.intakes import Intake, Price

if TYPE_CHECKING:
    from core.finetune.pricing import TrainingBudget

_PLAN = ("epsilon", "delta", "rows", "batch", "steps", "sampling")


class FinetuneFields(Strict):
    """Everything but the texts. All of it is public: nothing may be read off the private rows."""

    name: str = Field(pattern=rf"^{NAME}$")
    labels: list[Annotated[str, Field(max_length=256)]] = Field(description="The names of the labels, declared.")
    pairs: bool = Field(False, description="Whether a row is a pair, `text` and `text_pair`.")
    method: Literal["lora", "rgp", "full"] = "lora"
    model: str = Field(FINETUNE_BUNDLED, max_length=64, description="The encoder: one of `finetune` in GET /models.")
    epsilon: float = Field(gt=0, description="Of the run for one row more or less; replacing one costs more.")
    delta: float = Field(gt=0, lt=1)
    rows: int = Field(ge=1, description="The number of private rows, declared: it is public.")
    batch: int = Field(ge=1, description="Rows expected in a step.")
    sampling: Literal["poisson", "random_allocation"] = Field(
        "poisson",
        description="`poisson`: each row joins a step by a coin of bias batch / rows. `random_allocation`: each row "
        "joins exactly one of the round(rows / batch) steps of an epoch; whole epochs only.",
    )
    epochs: float | None = Field(None, gt=0, description="How often a row is expected to be read; or `steps`.")
    steps: int | None = Field(None, ge=1)
    rank: int = Field(RANK, ge=1, le=RANK_MAX, description="Of adapters or carriers; `full` has none.")
    pieces_max: int = Field(PIECES, ge=PIECES_MIN, le=PIECES_MAX, description="Word pieces read of a text.")
    learning_rate: float | None = Field(
        None, gt=0, le=1, description="Of Adam, for the encoder's part; by default the method's own."
    )
    subject: str | None = Field(None, min_length=1, max_length=256)


class LabelledRow(Strict):
    text: str
    text_pair: str | None = None
    label: str


class FinetuneRequest(FinetuneFields):
    """Body of `POST /jobs/finetune` as JSON."""

    private: list[LabelledRow]
    public: list[LabelledRow] = Field(default_factory=list)

    def all_rows(self) -> Iterator[dict[str, Any]]:
        """The rows of both splits, as JSON lines have them."""
        yield from (row.model_dump(exclude_none=True) for row in self.private)
        yield from (row.model_dump(exclude_none=True) | {"split": PUBLIC} for row in self.public)


class FinetuneEstimate(FinetuneFields):
    """The same body for its price; rows are not read."""

    private: list[dict[str, Any]] | None = None
    public: list[dict[str, Any]] | None = None


def settled_fields(here: House, fields: FinetuneFields) -> FinetuneFields:
    """The fields with the steps that will be made, once the parameters can be used; rows are not looked at.

    Raises InvalidInput; OutOfRange, with the smallest epsilon that is enough.
    """
    # late: with scipy, which a front end without such jobs does without
    from core.finetune.plan import Sampling, check_training, steps_of

    settings = here.settings
    check_labels(fields.labels)
    _check_model(settings, fields.model)
    if fields.rows > settings.finetune_rows_max:
        raise InvalidInput(f"at most {settings.finetune_rows_max} rows", field="rows")
    if (fields.epochs is None) == (fields.steps is None):
        raise InvalidInput("give exactly one of epochs and steps", field="epochs")
    steps = fields.steps
    if fields.epochs is not None:
        steps = steps_of(rows=fields.rows, batch=fields.batch, epochs=fields.epochs, sampling=Sampling(fields.sampling))
    if steps is None or steps > settings.finetune_steps_max:
        raise InvalidInput(f"at most {settings.finetune_steps_max} steps", field="steps" if fields.steps else "epochs")
    if not settings.epsilon_min <= fields.epsilon <= settings.epsilon_max:
        raise InvalidInput(
            f"epsilon must be between {settings.epsilon_min:g} and {settings.epsilon_max:g}", field="epsilon"
        )
    settled = fields.model_copy(update={"steps": steps, "epochs": None})
    check_training(**settled.model_dump(include=set(_PLAN)) | {"sampling": Sampling(fields.sampling)})
    return settled


def _check_model(settings: Settings, name: str) -> None:
    """Raises InvalidInput for an encoder that is not the operator's, or that is no safetensors checkpoint."""
    if name == FINETUNE_BUNDLED:
        return
    folder = settings.finetune_models.get(name)
    if folder is None:
        raise InvalidInput("no such encoder; GET /models lists them under `finetune`", field="model")
    if not any(folder.glob("*.safetensors")):
        raise InvalidInput("the encoder has no safetensors weights; other formats are not read", field="model")


def _settled(here: House, _: str, fields: FinetuneFields) -> FinetuneFields:
    """The fields, once they and the rows of a JSON body can be used. Raises InvalidInput, BadCorpus."""
    settled = settled_fields(here, fields)
    if isinstance(settled, FinetuneRequest):
        terms = RowTerms(
            labels=tuple(settled.labels),
            pairs=settled.pairs,
            rows=settled.rows,
            public_rows_max=here.settings.finetune_public_rows_max,
            text_chars_max=here.settings.document_chars_max,
        )
        read_splits(enumerate(settled.all_rows(), start=1), terms)
    return settled


async def _price(here: House, fields: Mapping[str, Any]) -> Price:
    """One event for the whole run. The job runs the very plan that is charged."""
    budget = await training_cost(here, fields)
    return Price(Charge(budget.event, fields["subject"]), {"budget": budget.stored()})


async def training_cost(here: House, fields: Mapping[str, Any]) -> TrainingBudget:
    """The plan of settled fields and its price, found in a process of its own: it may take seconds.

    Raises OutOfRange; QueueFull, CalculationTimeout, NotStarted.
    """
    plan = {name: fields[name] for name in _PLAN}
    budget: TrainingBudget = await here.calculations.run("training_budget", **plan)
    return budget


FINETUNE = Intake(
    "finetune",
    FinetuneFields,
    FinetuneRequest,
    rows=FinetuneRequest.all_rows,
    rows_described='Rows {"text", "label"}, of pairs "text_pair", public ones with "split": "public".',
    settled=_settled,
    price=_price,
)
