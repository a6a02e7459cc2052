"""Names that bodies and presets accept, as types that list the rows of the tables of `core`.

A row that is added to a table is accepted without an edit of a schema. Type checkers see `str`, since a table's rows
are not known to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from core.mechanisms.sentences.registry import SENTENCE_MECHANISMS
from core.mechanisms.vectors.spec import PROJECTIONS, VECTOR_MECHANISMS
from core.mechanisms.words.pricing import MECHANISMS, SCOPES
from core.text.formats.builder import ACTIONS, ATTACHMENTS, DELIMITERS, FORMAT_NAMES, HEADERS, HIDDEN_TEXT
from core.text.policy import CONSISTENCIES, FILL_MODES, TECHNIQUES, UNKNOWN_LANGUAGE

if TYPE_CHECKING:
    SentenceMechanism = str
    VectorMechanism = str
    Projection = str
    Technique = str
    FillMode = str
    FillMechanism = str
    FillScope = str
    UnknownLanguage = str
    DocumentFormat = str
    ValueAction = str
    HeaderRow = str
    Delimiter = str
    HiddenText = str
    Attachments = str
    Consistency = str
else:
    SentenceMechanism = Literal[tuple(SENTENCE_MECHANISMS)]
    VectorMechanism = Literal[VECTOR_MECHANISMS]
    Projection = Literal[PROJECTIONS]
    Technique = Literal[tuple(TECHNIQUES)]
    FillMode = Literal[FILL_MODES]
    FillMechanism = Literal[MECHANISMS]
    FillScope = Literal[SCOPES]
    UnknownLanguage = Literal[UNKNOWN_LANGUAGE]
    DocumentFormat = Literal[FORMAT_NAMES]
    ValueAction = Literal[ACTIONS]
    HeaderRow = Literal[HEADERS]
    Delimiter = Literal[tuple(DELIMITERS)]
    HiddenText = Literal[HIDDEN_TEXT]
    Attachments = Literal[ATTACHMENTS]
    Consistency = Literal[CONSISTENCIES]
