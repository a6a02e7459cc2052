"""Bodies of `POST /jobs/finetune`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field

from core.finetune.inputs import LABELS_MAX, PIECES, PIECES_MAX, PIECES_MIN, PUBLIC, RANK, RANK_MAX
from gpu_workers.finetune.spec import BUNDLED
from service.config.data_dir import NAME
from service.config.settings import ROWS_TAKEN
from service.http.strict import AtMost, Strict


class FinetuneFields(Strict):
    """Everything but the texts. All of it is public: it must not be derived from the private rows."""

    name: str = Field(pattern=rf"^{NAME}$")
    labels: Annotated[list[Annotated[str, Field(max_length=256)]], AtMost(LABELS_MAX)] = Field(
        description="The names of the labels, declared."
    )
    pairs: bool = Field(False, description="Whether a row is a pair, `text` and `text_pair`.")
    method: Literal["lora", "rgp", "full"] = "lora"
    model: str = Field(BUNDLED, max_length=64, description="The encoder: one of `finetune` in GET /models.")
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
    weight_decay: float = Field(
        0.0, ge=0, le=1, description="Decoupled, as in AdamW: a step shrinks the trained weights by rate times this."
    )
    subject: str | None = Field(None, min_length=1, max_length=256)


class LabelledRow(Strict):
    text: str
    text_pair: str | None = None
    label: str


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
