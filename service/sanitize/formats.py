"""The format of a document of `/sanitize` and its options, and the form that follows from them.

Forms are read in a process apart (`service.isolation`): a parser of a library may need more time or memory for a
document than its size lets one expect.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from core.errors import InvalidInput
from core.text.formats import builder as options
from core.text.formats.builder import TEXT, FormatLimits, parse
from core.text.formats.form import Form
from core.text.formats.json_form import RULES_MAX
from service.config.settings import Settings
from service.http.choices import Attachments, Delimiter, HeaderRow, HiddenText, ValueAction
from service.http.strict import AtMost, Strict, exactly_one_of
from service.isolation import Isolation

_COLUMNS_MAX = 1_000


class ValueRule(Strict):
    """What happens to values, as `core.text.formats.builder.Action` describes it."""

    action: ValueAction = "mask"
    type: str | None = Field(
        None, max_length=64, description="An entity of GET /entities: mask the whole value, as this entity."
    )

    def resolved(self) -> options.Action:
        """Raises InvalidInput for an unknown entity, or one beside `keep` or `drop`."""
        return options.Action(self.action, self.type or "")


class PathRule(ValueRule):
    path: str = Field(min_length=1, max_length=512, description="Such as `$.customer.name`, `*.email`, `rows[*].id`.")


class ColumnRule(ValueRule):
    name: str | None = Field(None, max_length=256, description="The column of this name in the first row.")
    index: int | None = Field(None, ge=0, description="The column of this number, from 0.")

    _one = exactly_one_of("name", "index")


class JsonOptions(Strict):
    rules: Annotated[list[PathRule], AtMost(RULES_MAX)] = Field(
        default=[], description="The first rule that matches decides."
    )
    lines: bool = Field(False, description="JSON Lines: a value a line.")


class CsvOptions(Strict):
    columns: Annotated[list[ColumnRule], AtMost(_COLUMNS_MAX)] = Field(default=[])
    header: HeaderRow = Field("auto", description="Whether the first row has the names of columns; `yes` keeps it.")
    delimiter: Delimiter = "auto"


class HtmlOptions(Strict):
    """Of `html`, and of HTML in `email` and `markdown`."""

    scripts: HiddenText = Field("mask", description="What happens to scripts and styles.")
    comments: HiddenText = "mask"


class EmailOptions(Strict):
    attachments: Attachments = Field("refuse", description="What happens to a part that is not text.")


class FormatBody(Strict):
    """Options of the formats. A document ignores those of other formats than its own."""

    json_: JsonOptions = Field(default=JsonOptions(), alias="json")
    csv: CsvOptions = CsvOptions()
    html: HtmlOptions = HtmlOptions()
    email: EmailOptions = EmailOptions()

    def resolved(self) -> options.FormatOptions:
        """Raises InvalidInput as `ValueRule.resolved`."""
        columns = [(rule.index if rule.name is None else rule.name, rule.resolved()) for rule in self.csv.columns]
        return options.FormatOptions(
            json=options.JsonChoices(
                tuple((rule.path, rule.resolved()) for rule in self.json_.rules), lines=self.json_.lines
            ),
            csv=options.CsvChoices(
                tuple((column, action) for column, action in columns if column is not None),
                header=self.csv.header,
                delimiter=self.csv.delimiter,
            ),
            html=options.HtmlChoices(scripts=self.html.scripts, comments=self.html.comments),
            email=options.EmailChoices(attachments=self.email.attachments),
        )


def keeps(chosen: FormatBody | None) -> bool:
    """Whether the options keep text that the mask would cover."""
    return chosen is not None and chosen.resolved().keeps


async def form_of(
    isolation: Isolation,
    tenant: str,
    text: str,
    format_name: str,
    chosen: FormatBody | None,
    settings: Settings,
    *,
    field: str,
) -> Form | None:
    """The form of a document, None for plain text.

    Raises InvalidInput, whose field begins with `field`, for a document that is too long, not in its format, or too
    costly to read, and for an option that cannot be used; NotStarted.
    """
    check_unused(format_name, chosen, field=field)
    if format_name == TEXT:
        return None
    check_chars(text, settings, field=field)
    try:
        options_ = (chosen or FormatBody()).resolved()
        return await isolation.run(tenant, len(text), parse, format_name, text, options_, FormatLimits(), field="text")
    except InvalidInput as error:
        own = error.field or ""
        inside = own in ("text", "format") or own.startswith("format_options")
        raise InvalidInput(error.detail, field=f"{field}.{own if inside else f'format_options.{own}'}") from None


def check_chars(text: str, settings: Settings, *, field: str) -> None:
    """Raise InvalidInput for a text that is longer than a document may be."""
    if len(text) > settings.document_chars_max:
        raise InvalidInput(f"at most {settings.document_chars_max} characters a document", field=f"{field}.text")


def check_unused(format_name: str, chosen: FormatBody | None, *, field: str) -> None:
    """Raise InvalidInput for options of a document that is plain text, which would have no effect."""
    if format_name == "text" and chosen is not None:
        raise InvalidInput("Options need a format other than `text`.", field=f"{field}.format_options")
