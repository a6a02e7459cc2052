"""The parameters of `/sanitize`: techniques, entities, fills, profiles, limits, and values passed between processes.

This module is light: the front end builds a `SanitizeTask` from it alone, so it imports no recogniser, word list or
faker. A technique is a function and a fill is a module, and each is one row of the tables below.

Guarantee: none. A masked text has no differential privacy, and kept words have no protection at all. The property is an
engineering one: the masked characters themselves are not in the output at the masked places. The fills with a
guarantee are `metric_dp` (`core.text.sanitize`) and `dp` (`core.text.model_fills`).
"""

from __future__ import annotations

import re
import secrets
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple, overload

from core.errors import InvalidInput
from core.files.disk import FileVersion
from core.mechanisms.words.pricing import DOCUMENT, EXPONENTIAL, MECHANISMS, SCOPES, SLOT
from core.text.own_recognisers.definition import OwnReference

GUARANTEE = "none"

TEXT_CHARS_MAX = 4_000_000
VOCABULARY_SIZE_MIN = 100
VOCABULARY_SIZE_MAX = 100_000
VOCABULARY_SIZE_DEFAULT = 10_000
ALLOW_LIST_DEFAULT = "general"
ENGLISH_ALLOW_LISTS = (ALLOW_LIST_DEFAULT, "general-5000")  # those that the package ships
ALLOW_LIST_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")

# name -> `module:function(text, tokens, policy, lists) -> list[Mask]`; the first row wins a tie between techniques
TECHNIQUES: Mapping[str, str] = MappingProxyType(
    {
        "entity": "core.text.mask_entity:find",
        "vocabulary": "core.text.mask_words:outside_vocabulary",
        "allow_list": "core.text.mask_words:outside_list",
        "all": "core.text.mask_words:every_token",
    }
)

# name -> module with `fill(text, masks, policy, lists) -> list[str]`
FILLS: Mapping[str, str] = MappingProxyType(
    {
        "marker": "core.text.fill_marker",
        "class_marker": "core.text.fill_class_marker",
        "surrogate": "core.text.fill_surrogate",
    }
)

SURROGATE = "surrogate"
SURROGATE_KEY_BYTES = 32
METRIC_DP = "metric_dp"
TOP_1, TOP_K, DP = "top1", "topk", "dp"
MODEL_FILLS = (TOP_1, TOP_K, DP)  # fills by a language model, if one runs
PRICED_FILLS = (METRIC_DP, DP)  # fills with an epsilon
# where the same original has the same surrogate: in one document, or in all documents of a tenant
PER_DOCUMENT, PER_TENANT = "document", "tenant"
CONSISTENCIES = (PER_DOCUMENT, PER_TENANT)
FILL_MODES = (*FILLS, METRIC_DP, *MODEL_FILLS)
K_DEFAULT = 10

AUTO = "auto"  # the language is guessed for each document
PATTERNS, REFUSE = "patterns", "refuse"
UNKNOWN_LANGUAGE = (PATTERNS, REFUSE)  # what happens to a document in none of the supported languages

WORD = "WORD"  # type of a word outside a list
NUMBER = "NUMBER"  # type of a token outside a list that contains no letter


@dataclass(frozen=True)
class EntityRow:
    """One type of personal data.

    threshold: minimum score of a hit that is masked.
    module: has `recognisers()`, whose result holds those of this entity. Empty for one that only a tagger finds.
    by_form: a recogniser passes the threshold without a context word, so that the entity is found in every language.
    by_words: its context words are in all languages, so that it is found in each of them.
    default: masked if the policy names no entity.
    tagged: found by a tagger; in addition to patterns if there is a module.
    """

    threshold: float
    module: str = ""
    by_form: bool = False
    by_words: bool = False
    default: bool = True
    tagged: bool = False

    @property
    def needs_tagger(self) -> bool:
        return not self.module


_CONTACT, _NUMBERS = "core.text.recognisers.contact", "core.text.recognisers.numbers"
_PHONE, _PRESIDIO = "core.text.recognisers.phone", "core.text.recognisers.presidio"
_LABELLED, _VEHICLE = "core.text.recognisers.labelled_types", "core.text.recognisers.vehicle"
_SECRETS, _PASSWORDS = "core.text.recognisers.secrets", "core.text.recognisers.passwords"
_USERNAMES, _DATES = "core.text.recognisers.usernames", "core.text.recognisers.dates"
_COORDINATES, _CASES = "core.text.recognisers.coordinates", "core.text.recognisers.case_numbers"
_PERSONAL, _QUANTITIES = "core.text.recognisers.personal_words", "core.text.recognisers.quantities"
_AFFILIATIONS, _REFERENCES = "core.text.recognisers.affiliations", "core.text.recognisers.reference_numbers"


# The thresholds of names were chosen on the texts of `benchmarks.sanitising`: a person that is missed costs more than a
# word too many, and most of those are acronyms taken for organisations.
# Scores are the recognisers' own (0 to 1): a checksum or a strict form scores 0.5 or more, a bare digit pattern
# 0.05 to 0.3, and a context word nearby adds 0.35 (at least 0.4 in all). A threshold of 0.35 to 0.5 therefore means
# "strict form, checksum, or context".
ENTITIES: dict[str, EntityRow] = {
    "EMAIL_ADDRESS": EntityRow(0.5, _CONTACT, by_form=True),
    "PHONE_NUMBER": EntityRow(0.4, _PHONE, by_form=True),
    "CREDIT_CARD": EntityRow(0.4, _NUMBERS, by_form=True),
    "IBAN_CODE": EntityRow(0.4, _NUMBERS, by_form=True),
    "US_SSN": EntityRow(0.4, _NUMBERS, by_form=True),
    "IP_ADDRESS": EntityRow(0.5, _PRESIDIO, by_form=True),
    "MAC_ADDRESS": EntityRow(0.5, _PRESIDIO, by_form=True),
    "URL": EntityRow(0.4, _CONTACT, by_form=True),
    "CRYPTO": EntityRow(0.6, _PRESIDIO, by_form=True),
    "US_ITIN": EntityRow(0.4, _PRESIDIO, by_form=True),
    "US_PASSPORT": EntityRow(0.4, _PRESIDIO),
    "US_BANK_NUMBER": EntityRow(0.4, _PRESIDIO),
    "ABA_ROUTING_NUMBER": EntityRow(0.4, _PRESIDIO),
    "US_MBI": EntityRow(0.4, _PRESIDIO, by_form=True),
    "US_NPI": EntityRow(0.4, _PRESIDIO),
    "MEDICAL_LICENSE": EntityRow(0.6, _PRESIDIO, by_form=True),
    "UK_NHS": EntityRow(0.6, _PRESIDIO, by_form=True),
    "UK_NINO": EntityRow(0.5, _PRESIDIO, by_form=True),
    "UK_PASSPORT": EntityRow(0.4, _PRESIDIO),
    "CA_SIN": EntityRow(0.4, _PRESIDIO),
    "AU_ABN": EntityRow(0.4, _PRESIDIO, by_form=True),
    "AU_TFN": EntityRow(0.4, _PRESIDIO),
    "AU_MEDICARE": EntityRow(0.4, _PRESIDIO),
    "IN_AADHAAR": EntityRow(0.4, _PRESIDIO, by_form=True),
    "IN_PAN": EntityRow(0.5, _PRESIDIO, by_form=True),
    "SG_NRIC_FIN": EntityRow(0.5, _PRESIDIO, by_form=True),
    "ES_NIF": EntityRow(0.6, _PRESIDIO, by_form=True),
    "ES_NIE": EntityRow(0.6, _PRESIDIO, by_form=True),
    "IT_FISCAL_CODE": EntityRow(0.6, _PRESIDIO, by_form=True),
    "PL_PESEL": EntityRow(0.4, _PRESIDIO, by_form=True),
    "DE_TAX_ID": EntityRow(0.4, _PRESIDIO, by_form=True),
    "NATIONAL_ID": EntityRow(0.4, _LABELLED, by_words=True),
    "TAX_ID": EntityRow(0.4, _LABELLED, by_words=True),
    "PASSPORT": EntityRow(0.4, _LABELLED, by_words=True),
    "DRIVER_LICENSE": EntityRow(0.4, _LABELLED, by_words=True),
    "MEDICAL_RECORD_NUMBER": EntityRow(0.4, _LABELLED, by_words=True),
    "HEALTH_INSURANCE_NUMBER": EntityRow(0.4, _LABELLED, by_words=True),
    "BANK_ACCOUNT": EntityRow(0.4, _LABELLED, by_words=True),
    "BANK_ROUTING": EntityRow(0.4, _LABELLED, by_words=True),
    "SWIFT_CODE": EntityRow(0.4, _NUMBERS, by_words=True),
    "LICENSE_PLATE": EntityRow(0.4, _VEHICLE, by_words=True),
    "VIN": EntityRow(0.4, _VEHICLE, by_words=True),
    "IMEI": EntityRow(0.4, _LABELLED, by_words=True),
    "EMPLOYEE_ID": EntityRow(0.4, _LABELLED, by_words=True),
    "CUSTOMER_ID": EntityRow(0.4, _LABELLED, by_words=True),
    "CASE_NUMBER": EntityRow(0.4, _CASES, by_words=True),
    "POSTCODE": EntityRow(0.4, _LABELLED, by_words=True),
    "UUID": EntityRow(0.5, _PRESIDIO, by_form=True, default=False),
    "UK_POSTCODE": EntityRow(0.1, _PRESIDIO, default=False),
    "SECRET": EntityRow(0.3, _SECRETS, by_words=True, tagged=True),
    "PASSWORD": EntityRow(0.3, _PASSWORDS, by_words=True, tagged=True),
    "USERNAME": EntityRow(0.5, _USERNAMES, by_words=True, tagged=True),
    "DATE_OF_BIRTH": EntityRow(0.5, _DATES, by_words=True),
    "COORDINATE": EntityRow(0.5, _COORDINATES, by_form=True),
    "AGE": EntityRow(0.5, _DATES, by_words=True, default=False),
    "DATE_TIME": EntityRow(0.5, _DATES, by_form=True, default=False),
    "US_DRIVER_LICENSE": EntityRow(0.3, _PRESIDIO, default=False),
    "NATIONALITY": EntityRow(0.5, _PERSONAL, by_words=True, default=False),
    "OCCUPATION": EntityRow(0.5, _PERSONAL, by_words=True, default=False),
    "RELATIONSHIP": EntityRow(0.5, _PERSONAL, by_words=True, default=False),
    "EDUCATION": EntityRow(0.5, _PERSONAL, by_words=True, default=False),
    "AFFILIATION": EntityRow(0.5, _AFFILIATIONS, by_words=True, default=False),
    "QUANTITY": EntityRow(0.5, _QUANTITIES, by_words=True, default=False),
    "DURATION": EntityRow(0.5, _QUANTITIES, by_words=True, default=False),
    "YEAR": EntityRow(0.5, _QUANTITIES, by_words=True, default=False),
    "REFERENCE_NUMBER": EntityRow(0.5, _REFERENCES, by_words=True, default=False),
    "PERSON": EntityRow(0.3, tagged=True),
    "LOCATION": EntityRow(0.25, tagged=True),
    "ORGANIZATION": EntityRow(0.7, tagged=True),
}
DEFAULT_ENTITIES = tuple(name for name, entity in ENTITIES.items() if entity.default and not entity.needs_tagger)
TAGGED_ENTITIES = tuple(name for name, entity in ENTITIES.items() if entity.needs_tagger)  # by no pattern
OWN_THRESHOLD = 0.4  # of a type of a tenant or the operator: a find with a context word passes it
TAGGED_SCORE_MIN = 0.25  # a tagger's score is a probability; the tagger reports nothing below this


def supported(tagger_types: Collection[str]) -> tuple[str, ...]:
    """Return the entities that are recognised with a tagger that finds `tagger_types`, in table order."""
    return tuple(name for name, entity in ENTITIES.items() if not entity.needs_tagger or name in tagger_types)


@dataclass(frozen=True)
class MaskPolicy:
    """Which parts of a text are masked. Masking is deterministic: the same text and policy give the same masks.

    Empty `entities` select `DEFAULT_ENTITIES`; with a tagger, `completed` adds the tagger's. `thresholds` are (entity,
    score) pairs that override the table. `language` and `unknown_language` do not change what is masked
    (`core.text.languages`). `own`: further recognisers, whose types may be named beside those of the table.
    `question`: what the text answers (`core.text.recognisers.asked`). `assistant`: the conversation around the text
    introduces an assistant (`core.text.recognisers.assistants`). `patterns_only`: no tagger reads the text.

    Raises InvalidInput, which contains a field and the supported values and nothing that the caller sent.
    """

    techniques: tuple[str, ...] = ("entity",)
    entities: tuple[str, ...] = ()
    vocabulary_size: int = VOCABULARY_SIZE_DEFAULT
    allow_list: str = ALLOW_LIST_DEFAULT
    thresholds: tuple[tuple[str, float], ...] = ()
    language: str = AUTO
    unknown_language: str = PATTERNS
    own: tuple[OwnReference, ...] = ()
    question: str = field(default="", repr=False)
    assistant: bool = False
    patterns_only: bool = False

    def __post_init__(self) -> None:
        if not self.techniques or not set(self.techniques) <= TECHNIQUES.keys():
            raise InvalidInput(
                f"Name at least one technique, each one of: {', '.join(TECHNIQUES)}.", field="techniques"
            )
        if not set(self.entities) <= ENTITIES.keys() | self.own_types:
            raise InvalidInput(f"An entity is none of: {', '.join(ENTITIES)}.", field="entities")
        if self.entities and "entity" not in self.techniques:
            raise InvalidInput("Entities need the technique `entity`.", field="entities")
        if self.own and "entity" not in self.techniques:
            raise InvalidInput("Recognisers need the technique `entity`.", field="recognisers")
        if not VOCABULARY_SIZE_MIN <= self.vocabulary_size <= VOCABULARY_SIZE_MAX:
            raise InvalidInput(
                f"The vocabulary size lies between {VOCABULARY_SIZE_MIN} and {VOCABULARY_SIZE_MAX}.",
                field="vocabulary_size",
            )
        if not ALLOW_LIST_NAME.fullmatch(self.allow_list):
            raise InvalidInput("That is not the name of an allow list.", field="allow_list")
        for entity, score in self.thresholds:
            if entity not in ENTITIES.keys() | self.own_types or not 0 < score <= 1:
                raise InvalidInput(
                    "A threshold is a score above 0 and at most 1 of a supported entity.", field="thresholds"
                )
            if entity in ENTITIES and ENTITIES[entity].needs_tagger and score < TAGGED_SCORE_MIN:
                raise InvalidInput(
                    f"A threshold of a tagged entity is at least {TAGGED_SCORE_MIN:g}.", field="thresholds"
                )

    @property
    def whole(self) -> bool:
        """Whether every word is masked."""
        return "all" in self.techniques

    @property
    def own_types(self) -> frozenset[str]:
        """The types that the recognisers of `own` find."""
        return frozenset(each.entity for each in self.own if each.entity)

    def threshold(self, entity: str) -> float:
        """Return the least score of a find of `own` that is masked."""
        table = ENTITIES[entity].threshold if entity in ENTITIES else OWN_THRESHOLD
        return dict(self.thresholds).get(entity, table)

    def completed(self, tagger_types: Collection[str]) -> MaskPolicy:
        """Return this policy with all entities listed. Without entities these are the default ones and the tagger's.

        `tagger_types`: what the tagger finds; empty if none runs. Raises InvalidInput for an entity that needs a tagger
        if this tagger does not find it.
        """
        if "entity" not in self.techniques:
            return self
        known = supported(tagger_types)
        if not set(self.entities) <= {*known, *self.own_types}:
            raise InvalidInput(f"An entity has no recogniser. Supported: {', '.join(known)}.", field="entities")
        return replace(self, entities=self.entities or tuple(name for name in known if ENTITIES[name].default))

    def looks_for(self, types: Collection[str]) -> bool:
        """Whether finds of all of `types` are masked. For a policy that is `completed`."""
        return set(types) <= {*self.requested(), *self.own_types}

    def requested(self) -> dict[str, float]:
        """Return entity -> threshold of the table's entities, in its order; empty without the technique `entity`."""
        if "entity" not in self.techniques:
            return {}
        wanted = set(self.entities or DEFAULT_ENTITIES)
        own = dict(self.thresholds)
        return {
            name: own.get(name, row.threshold)
            for name, row in ENTITIES.items()
            if name in wanted and not (self.patterns_only and row.needs_tagger)
        }


def check_fill(fill: str) -> None:
    """Raise InvalidInput if there is no fill of that name."""
    if fill not in FILLS:
        raise InvalidInput(f"The fill mode is one of: {', '.join(FILLS)}.", field="fill")


def check_text(text: str) -> None:
    """Raise InvalidInput if the text has more than `TEXT_CHARS_MAX` characters."""
    if len(text) > TEXT_CHARS_MAX:
        raise InvalidInput(f"A text has at most {TEXT_CHARS_MAX} characters.", field="text")


def check_epsilon(fill: str, epsilon: object) -> None:
    """Raise InvalidInput if an epsilon is missing, or is given for a fill without a guarantee."""
    if (fill in PRICED_FILLS) != (epsilon is not None):
        raise InvalidInput(
            f"The fills {', '.join(PRICED_FILLS)} need an epsilon, and no other fill takes one.", field="epsilon"
        )


@dataclass(frozen=True)
class SanitizeTask:
    """One document for the worker. The text is not in `repr`.

    `epsilon_nano` is for the priced fills only (for `metric_dp` per unit of distance), `mechanism` for `metric_dp`,
    `k` for `topk`, `scope` for `dp`, and `model`, a fine-tuned one, for `top1` and `topk`. `explain`: the most
    suppressed finds to report beside the place, score and recogniser of each find; None reports none of these. A
    `dry_run` reports finds and fills nothing. The priced fills take neither, because both reveal facts of the text that
    their price does not cover. `surrogate_key`: of the fill `surrogate`, random for each document, or derived from the
    tenant's. Raises InvalidInput.
    """

    text: str = field(repr=False)
    policy: MaskPolicy
    fill: str = "class_marker"
    epsilon_nano: int | None = None
    mechanism: str = EXPONENTIAL
    k: int = K_DEFAULT
    scope: str = SLOT
    model: FileVersion | None = None
    explain: int | None = None
    dry_run: bool = False
    surrogate_key: bytes = field(
        default_factory=lambda: secrets.token_bytes(SURROGATE_KEY_BYTES), repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if self.fill not in FILL_MODES:
            raise InvalidInput(f"The fill mode is one of: {', '.join(FILL_MODES)}.", field="fill")
        check_epsilon(self.fill, self.epsilon_nano)
        if self.mechanism not in MECHANISMS:
            raise InvalidInput(f"The mechanism is one of: {', '.join(MECHANISMS)}.", field="mechanism")
        if self.model is not None and self.fill not in (TOP_1, TOP_K):
            raise InvalidInput(f"Only the fills {TOP_1} and {TOP_K} take a fine-tuned model.", field="model")
        if self.k < 1:
            raise InvalidInput("K is at least 1.", field="k")
        if self.scope not in SCOPES or (self.scope == DOCUMENT and self.policy.techniques != ("all",)):
            raise InvalidInput("The scope `document` needs the technique `all` and no other.", field="scope")
        if self.fill in PRICED_FILLS and (self.explain is not None or self.dry_run):
            raise InvalidInput("A fill with a price has no explanation and no dry run.", field="dry_run")
        check_text(self.text)

    @property
    def needs_recognisers(self) -> bool:
        """Whether masking runs recognisers: the policy asks for entities, and some words may stay unmasked."""
        return bool(self.policy.requested() or self.policy.own) and not (
            self.fill in PRICED_FILLS and self.policy.whole
        )


@dataclass(frozen=True)
class Mask:
    """One masked region [start, end) of the **original** text. `recogniser`: the name of what found it; empty for a
    word list."""

    start: int
    end: int
    type: str
    technique: str
    score: float = 1.0
    recogniser: str = ""


class Span(NamedTuple):
    """One filled region [start, end) of the **output** text."""

    start: int
    end: int
    type: str
    technique: str


@dataclass(frozen=True)
class Spans(Sequence[Span]):
    """A sequence of `Span`, stored as arrays. Region i is `edges[2 * i] : edges[2 * i + 1]`, of the type and technique
    `kinds[numbers[i]]`.

    A text may have as many regions as words. As objects, they would take most of the time of sending a result from a
    worker to the gateway, and hundreds of bytes each.
    """

    edges: array[int]
    numbers: array[int]
    kinds: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, spans: Iterable[Span]) -> Spans:
        edges, numbers = array("q"), array("H")
        kinds: dict[tuple[str, str], int] = {}
        for start, end, kind, technique in spans:
            edges.append(start)
            edges.append(end)
            numbers.append(kinds.setdefault((kind, technique), len(kinds)))
        return cls(edges, numbers, tuple(kinds))

    def types(self) -> Counter[str]:
        """How many regions each type has."""
        found: Counter[str] = Counter()
        for number, times in Counter(self.numbers).items():
            found[self.kinds[number][0]] += times
        return found

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> Span: ...
    @overload
    def __getitem__(self, index: slice) -> list[Span]: ...
    def __getitem__(self, index: int | slice) -> Span | list[Span]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        return Span(self.edges[2 * place], self.edges[2 * place + 1], *self.kinds[self.numbers[place]])

    def __iter__(self) -> Iterator[Span]:
        return map(self.__getitem__, range(len(self)))


OVERLAPPED = "overlapped"  # a longer or stronger find covers a part of it, or all
BELOW_THRESHOLD = "below_threshold"
NO_CONTEXT = "no_context"  # below the threshold, which a context word nearby would have raised it to
ALLOW_LISTED = "allow_listed"  # within a term of an allow list
RULES = (OVERLAPPED, BELOW_THRESHOLD, NO_CONTEXT, ALLOW_LISTED)


class Origin(NamedTuple):
    """The region [start, end) of the text **as sent**, in code points, that became one span of the output.

    score: of the recogniser, 0 to 1; 0 for a word list. recogniser: its name; empty for a word list.
    """

    start: int
    end: int
    score: float
    recogniser: str


@dataclass(frozen=True)
class Origins(Sequence[Origin]):
    """A sequence of `Origin`, with scores as 32-bit floats."""

    edges: array[int]
    scores: array[float]
    numbers: array[int]
    recognisers: tuple[str, ...]

    @classmethod
    def of(cls, origins: Iterable[Origin]) -> Origins:
        edges, scores, numbers = array("q"), array("f"), array("H")
        names: dict[str, int] = {}
        for start, end, score, recogniser in origins:
            edges.append(start)
            edges.append(end)
            scores.append(score)
            numbers.append(names.setdefault(recogniser, len(names)))
        return cls(edges, scores, numbers, tuple(names))

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> Origin: ...
    @overload
    def __getitem__(self, index: slice) -> list[Origin]: ...
    def __getitem__(self, index: int | slice) -> Origin | list[Origin]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        edges = self.edges[2 * place], self.edges[2 * place + 1]
        return Origin(*edges, self.scores[place], self.recognisers[self.numbers[place]])

    def __iter__(self) -> Iterator[Origin]:
        return map(self.__getitem__, range(len(self)))


class SuppressedFind(NamedTuple):
    """A find that did not become a region of its own.

    start, end: the region of the text as sent, in code points. rule: one of `RULES`. by: the type of the find that
    covers it, for `overlapped`.
    """

    start: int
    end: int
    type: str
    score: float
    recogniser: str
    rule: str
    by: str | None = None


class SuppressedFinds(NamedTuple):
    """`finds` in order of position, and the number of those `left_out` because of a limit, which have lower scores."""

    finds: tuple[SuppressedFind, ...] = ()
    left_out: int = 0


@dataclass(frozen=True)
class Sanitised:
    """A released text. `tokens` counts the words and numbers of the original text.

    It contains no masked string, with two exceptions: with the fill `metric_dp` a word of the public vocabulary may be
    replaced by itself (excluding that would reveal the word), and a language model may guess a word.

    `language`: as named or guessed, None for a fill with a price. `refused`: the text is empty, because the policy
    refuses the document's language. `origins` belong to `spans`, and are reported with `suppressed` if the task asks
    for an explanation. After a dry run the text and the ranges of the spans are empty.
    """

    text: str = field(repr=False)
    spans: Spans
    masked_tokens: int
    tokens: int
    language: str | None = None
    refused: bool = False
    origins: Origins | None = None
    suppressed: SuppressedFinds | None = None


# Profiles: named sets of entities for `mask.profile`. A profile is a starting point for a rule set, and no proof that a
# text meets it: recognition misses some, and rules such as HIPAA's cover more than text (faces, fingerprints). A new
# entity joins a profile in one of these groups, each of which is a kind of identifier that several rules name.
DEFAULT = "default"

NAMES = ("PERSON", "LOCATION")  # organisations identify no person
PLACES = ("COORDINATE", "UK_POSTCODE", "POSTCODE")
CONTACT = ("EMAIL_ADDRESS", "PHONE_NUMBER")
ONLINE = ("URL", "IP_ADDRESS", "MAC_ADDRESS", "USERNAME", "UUID")
SECRETS = ("SECRET", "PASSWORD")
BIRTH = ("DATE_OF_BIRTH",)
AGES_AND_DATES = ("AGE", "DATE_TIME")
# what identifies a person together with other facts
INDIRECT = (
    *("NATIONALITY", "OCCUPATION", "RELATIONSHIP", "EDUCATION", "AFFILIATION"),
    *("QUANTITY", "DURATION", "YEAR", "REFERENCE_NUMBER"),
)
CARDS = ("CREDIT_CARD",)
BANK_ACCOUNTS = (
    "IBAN_CODE",
    "BANK_ACCOUNT",
    "BANK_ROUTING",
    "SWIFT_CODE",
    "US_BANK_NUMBER",
    "ABA_ROUTING_NUMBER",
    "CRYPTO",
)
NATIONAL_NUMBERS = (
    *("NATIONAL_ID", "TAX_ID"),
    *("US_SSN", "US_ITIN", "UK_NINO", "CA_SIN", "AU_ABN", "AU_TFN", "IN_AADHAAR", "IN_PAN", "SG_NRIC_FIN"),
    *("ES_NIF", "ES_NIE", "IT_FISCAL_CODE", "PL_PESEL", "DE_TAX_ID"),
)
DOCUMENTS = ("PASSPORT", "DRIVER_LICENSE", "US_PASSPORT", "UK_PASSPORT", "US_DRIVER_LICENSE")
HEALTH_NUMBERS = (
    "MEDICAL_RECORD_NUMBER",
    "HEALTH_INSURANCE_NUMBER",
    "US_MBI",
    "US_NPI",
    "MEDICAL_LICENSE",
    "UK_NHS",
    "AU_MEDICARE",
)
VEHICLES_AND_DEVICES = ("LICENSE_PLATE", "VIN", "IMEI")
BUSINESS_NUMBERS = ("EMPLOYEE_ID", "CUSTOMER_ID", "CASE_NUMBER")

PROFILES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        DEFAULT: tuple(name for name, entity in ENTITIES.items() if entity.default),
        # the 18 identifiers of 45 CFR 164.514(b)(2), as far as text holds them
        "hipaa": (
            *(*NAMES, *PLACES, *CONTACT, *ONLINE, *BIRTH, *AGES_AND_DATES, *CARDS, *BANK_ACCOUNTS),
            *(*NATIONAL_NUMBERS, *DOCUMENTS, *HEALTH_NUMBERS, *VEHICLES_AND_DEVICES, *BUSINESS_NUMBERS),
        ),
        # what identifies a natural person directly or by an identifier, Article 4(1)
        "gdpr": (
            *(*NAMES, *PLACES, *CONTACT, *ONLINE, *BIRTH, *CARDS, *BANK_ACCOUNTS),
            *(*NATIONAL_NUMBERS, *DOCUMENTS, *HEALTH_NUMBERS, *VEHICLES_AND_DEVICES, *BUSINESS_NUMBERS),
        ),
        # cardholder data and what authenticates: PCI DSS
        "pci": ("PERSON", *CARDS, *BANK_ACCOUNTS, *SECRETS),
        "secrets": SECRETS,
        # what identifies a person directly or together with other facts
        "anonymise": (
            *(*NAMES, "ORGANIZATION", *PLACES, *CONTACT, *ONLINE, *BIRTH, *AGES_AND_DATES, *INDIRECT, *CARDS),
            *(*BANK_ACCOUNTS, *NATIONAL_NUMBERS, *DOCUMENTS, *HEALTH_NUMBERS, *VEHICLES_AND_DEVICES),
            *(*BUSINESS_NUMBERS, *SECRETS),
        ),
    }
)


def entities_of(profile: str | None, entities: tuple[str, ...], *, techniques: tuple[str, ...]) -> tuple[str, ...]:
    """Return the entities of a `MaskPolicy`: those named and those of the profile. Empty: the default ones.

    Raises InvalidInput, which lists the supported values, for a profile that does not exist, and for one without the
    technique `entity`.
    """
    if profile is None:
        return entities
    if profile not in PROFILES:
        raise InvalidInput(f"The profile is one of: {', '.join(PROFILES)}.", field="mask.profile")
    if "entity" not in techniques:
        raise InvalidInput("A profile needs the technique `entity`.", field="mask.profile")
    if profile == DEFAULT and not entities:
        return ()
    wanted = {*entities, *PROFILES[profile]}
    others = tuple(name for name in entities if name not in ENTITIES)
    return (*(name for name in ENTITIES if name in wanted), *others)
