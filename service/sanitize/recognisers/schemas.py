"""Recognisers in bodies and in the operator's file."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from core.text.own_recognisers.definition import SCORE_DEFAULT, Definition
from service.config.recognisers import PATTERNS_TAKEN, TERMS_TAKEN
from service.http.strict import AtMost, Strict

Strings = Annotated[list[str], AtMost(PATTERNS_TAKEN)]
Terms = Annotated[list[str], AtMost(TERMS_TAKEN)]


class RecogniserBody(Strict):
    """A recogniser: body of `PUT /sanitize/recognisers/{name}`, and a recogniser of a policy."""

    entity: str = Field(
        "", max_length=64, description="Type of the finds: an own one, such as PROJECT_CODE, or another."
    )
    patterns: Strings = Field(default=[], description="Regular expressions in the syntax of RE2.")
    deny: Terms = Field(default=[], description="Terms that are always masked.")
    allow: Terms = Field(default=[], description="Terms in which patterns and the tagger mask nothing.")
    context: Strings = Field(default=[], description="Words near which a find of a pattern scores higher.")
    score: float = Field(SCORE_DEFAULT, gt=0, le=1, description="Score of the finds of patterns.")
    case_sensitive: bool = False
    whole_words: bool = True

    def definition(self) -> Definition:
        """The definition, unchecked."""
        return Definition(
            entity=self.entity,
            score=self.score,
            case_sensitive=self.case_sensitive,
            whole_words=self.whole_words,
            patterns=tuple(self.patterns),
            deny=tuple(self.deny),
            allow=tuple(self.allow),
            context=tuple(self.context),
        )


class DraftBody(Strict):
    """Body of `POST /sanitize/recognisers/test`. `threshold`: by default that of the recogniser's type."""

    recogniser: RecogniserBody
    text: str
    threshold: float | None = Field(None, gt=0, le=1)
