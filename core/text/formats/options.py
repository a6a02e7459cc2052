"""The options of formats. The front end makes them from a request; each format reads its own."""

from __future__ import annotations

from dataclasses import dataclass, field

from core.errors import InvalidInput
from core.text.policy import ENTITIES

MASK, KEEP, DROP = "mask", "keep", "drop"
ACTIONS = (MASK, KEEP, DROP)
HEADERS = ("auto", "yes", "no")
DELIMITERS = {"auto": "", "comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
HIDDEN_TEXT = ("mask", "drop", "refuse")  # of scripts, styles and comments
ATTACHMENTS = ("refuse", "drop", "pass")


@dataclass(frozen=True)
class Action:
    """What happens to a value: `mask` it as text, `keep` it, `drop` it, or with a `type` mask all of it as this type.

    Raises InvalidInput for an unknown action or type, and for a type beside `keep` or `drop`.
    """

    action: str = MASK
    type: str = ""

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise InvalidInput(f"An action is one of: {', '.join(ACTIONS)}.", field="action")
        if self.type and (self.type not in ENTITIES or self.action != MASK):
            raise InvalidInput(
                f"A type belongs to the action `{MASK}` and is one of: {', '.join(ENTITIES)}.", field="type"
            )


@dataclass(frozen=True)
class JsonOptions:
    """rules: a path (`core.text.formats.paths`) and its action; the first that matches decides. lines: JSON Lines."""

    rules: tuple[tuple[str, Action], ...] = ()
    lines: bool = False


@dataclass(frozen=True)
class CsvOptions:
    """columns: the name or number (from 0) of a column, and its action. header: whether the first row has names.

    With `auto`, the first row gives labels if it looks like names, and is sanitised like any other row.
    """

    columns: tuple[tuple[str | int, Action], ...] = ()
    header: str = "auto"
    delimiter: str = "auto"


@dataclass(frozen=True)
class HtmlOptions:
    """What happens to scripts and styles, and to comments: `mask` them as text, `drop` or `refuse` them."""

    scripts: str = "mask"
    comments: str = "mask"


@dataclass(frozen=True)
class EmailOptions:
    """What happens to an attachment that is not text: `refuse` the document, `drop` the attachment, or `pass` it."""

    attachments: str = "refuse"


@dataclass(frozen=True)
class FormatOptions:
    """The options of each format. A format ignores those of others."""

    json: JsonOptions = field(default_factory=JsonOptions)
    csv: CsvOptions = field(default_factory=CsvOptions)
    html: HtmlOptions = field(default_factory=HtmlOptions)
    email: EmailOptions = field(default_factory=EmailOptions)

    @property
    def keeps(self) -> bool:
        """Whether an option keeps text that the policy would mask."""
        actions = [action for _, action in (*self.json.rules, *self.csv.columns)]
        return (
            any(each.action == KEEP for each in actions) or self.email.attachments == "pass" or self.csv.header == "yes"
        )
