"""The languages that a mask accepts, and what is recognised in each.

`en`: everything. The others: the entities that a strict form or a checksum identifies without context, and those whose
context words are in all languages or whose recogniser reads those of every language (secrets, dates of birth, ...).
Entities that need English words nearby (`US_PASSPORT`, `US_BANK_NUMBER`), English names or an English word list are not
offered in the other languages, because they would rarely be found.
"""

from __future__ import annotations

from core.errors import InvalidInput
from core.text.policy import ALLOW_LIST_DEFAULT, ENTITIES
from core.text.profiles import DEFAULT, PROFILES

ENGLISH = "en"
PATTERNS_ONLY = ("de", "es", "fr", "it", "nl", "pl", "pt")
LANGUAGES = (ENGLISH, *PATTERNS_ONLY)

# Phone numbers are recognised in international form, with a leading zero, or in a common grouping. Other local forms
# need an English word nearby.
OFFERED_ENTITIES = tuple(name for name, entity in ENTITIES.items() if entity.by_form or entity.by_words)


def entities_of(
    language: str,
    *,
    techniques: tuple[str, ...],
    entities: tuple[str, ...],
    allow_list: str,
    profile: str | None = None,
) -> tuple[str, ...]:
    """Return the entities of a `MaskPolicy` for documents in `language`: those requested and those of the profile, or
    the language's default.

    Of a profile, patterns that this language does not offer are left out; names are not, so that a profile with names
    is refused where no tagger reads them. Raises InvalidInput, which lists the supported values, for a profile that
    does not exist, for a language that is not offered, and for what this one lacks: an entity, the technique
    `vocabulary`, or the shipped allow list (an operator's own list may be in any language).
    """
    if profile is not None and profile not in PROFILES:
        raise InvalidInput(f"The profile is one of: {', '.join(PROFILES)}.", field="mask.profile")
    if profile is not None and "entity" not in techniques:
        raise InvalidInput("A profile needs the technique `entity`.", field="mask.profile")
    if language not in LANGUAGES:
        raise InvalidInput(f"The language is one of: {', '.join(LANGUAGES)}.", field="mask.language")
    if profile is not None and (profile != DEFAULT or entities):
        offered = ENTITIES if language == ENGLISH else OFFERED_ENTITIES
        wanted = {*entities, *(name for name in PROFILES[profile] if name in offered or ENTITIES[name].tagged)}
        entities = tuple(name for name in ENTITIES if name in wanted) + tuple(
            name for name in entities if name not in ENTITIES
        )
    if language == ENGLISH:
        return entities
    if not set(entities) <= set(OFFERED_ENTITIES):
        raise InvalidInput(
            f"An entity is not recognised in this language. Supported: {', '.join(OFFERED_ENTITIES)}.",
            field="mask.entities",
        )
    if "vocabulary" in techniques:
        raise InvalidInput("The vocabulary is English.", field="mask.techniques")
    if "allow_list" in techniques and allow_list == ALLOW_LIST_DEFAULT:
        raise InvalidInput("This allow list is English.", field="mask.allow_list")
    if entities or "entity" not in techniques:
        return entities
    return tuple(name for name in OFFERED_ENTITIES if ENTITIES[name].default)
