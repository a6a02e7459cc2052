"""Names of things that everybody knows and that identify nobody where they stand, in eight languages.

`public_thing` looks at what a tagger takes for a name and at the words beside it:

* A make of vehicles before a model, after a word for a vehicle, or after `my` and the like (`a white Ford Transit`,
  `mein Opel`), a model after its make, and a known model near a word for a vehicle. `Mr Ford` and `at Ford` stay.
* Programs, services, means of payment and materials (`Markdown`, `Bizum`); authorities, taxes, documents and offices in
  capitals (`NHS`, `ZUS`, `EOD`); streets that stand for a trade (`Wall Street`), without a number beside them.
* A post in a signature (`People Partner`), the code of an emoji (`:tada:`), and a forum (`r/DIYUK`).
* A numbered part of a building (`pista 3`), and a name before or after a word for one (`Shackleton Suite`).
* A scientist beside a word for a law, a test or a unit (`prawo Ohma`).
* A program in small letters before its version of three parts (`jackson 2.13.4`), which is no date.

The lists are short and no register of all such things. Cost: constant for each find.
"""

import regex  # type: ignore[import-untyped]

from core.text.labelled import phrases
from core.text.recogniser import texts_of

_TEXTS = texts_of(__name__)


def _named(key: str) -> frozenset[str]:
    return frozenset(phrases(_TEXTS[key]))


_MAKES, _MODELS = _named("makes"), _named("models")
_THINGS = _named("products") | _named("famous")
_ABBREVIATIONS = _named("abbreviations")
_ROLES, _ROLE_WORDS = _named("roles"), _named("role_words") | _named("roles")
_WORD = regex.compile(r"[^\s,;]+")
_BEFORE_WORD = regex.compile(r"(?r)(?:([\p{L}-]+)[ ])?([\p{L}-]+)[ ]\Z")
_AFTER_WORD = regex.compile(r"[ ]([\p{L}\d-]+)(?:[ ]([\p{L}\d-]+))?")
_VEHICLE = regex.compile(rf"(?<!\p{{L}})(?:{_TEXTS['vehicle_words']})(?!\p{{L}})", regex.IGNORECASE)
_VEHICLE_BEFORE = regex.compile(rf"(?r)(?<!\p{{L}})(?:{_TEXTS['vehicle_words']})[ ]\Z", regex.IGNORECASE)
_OWNED = regex.compile(rf"(?r)(?<!\p{{L}})(?:{_TEXTS['owned']})[ ]\Z", regex.IGNORECASE)
_EMOJI = regex.compile(r":[a-z\d_+-]{2,30}:")
_FORUM = regex.compile(r"r/\w{2,21}")
_PART = regex.compile(rf"(?:{_TEXTS['places']})[ ](?:n[ro.º°]{{1,2}}[ ]?)?[A-Z]?\d{{1,3}}[a-z]?", regex.IGNORECASE)
_NAMED_PART = regex.compile(
    rf"(?:\p{{Lu}}[\p{{L}}'’.-]*[ ]){{1,3}}(?i:{_TEXTS['named_parts']})|\p{{Lu}}\p{{Ll}}+-?(?:saal|zaal|raum)"
)
_PART_AFTER = regex.compile(rf"[ ](?:{_TEXTS['named_parts']})(?![\p{{L}}]|[ ]?\d)", regex.IGNORECASE)
_PART_BEFORE = regex.compile(rf"(?r)(?<!\p{{L}})(?:{_TEXTS['parts_before']})[ ][\"“„«'’]?\Z", regex.IGNORECASE)
_SCIENTIST = rf"(?:{_TEXTS['scientists']})(?:a|ego|s)?(?:['’]s?)?"
_OF_LAW = rf"(?:{_TEXTS['laws']})(?:a|ego|s)?(?:['’]s?)?"
_SCIENCE = regex.compile(
    rf"(?:{_SCIENTIST}[ -]?(?:\p{{Ll}}{{2,12}}[ ])?(?:{_TEXTS['science_after']})"
    rf"|{_OF_LAW}[ ](?:law|effect))(?!\p{{L}})",
    regex.IGNORECASE,
)
_SCIENTISTS = regex.compile(rf"{_SCIENTIST}|{_OF_LAW}", regex.IGNORECASE)
_SCIENCE_BEFORE = regex.compile(rf"(?r)(?<!\p{{L}}){_TEXTS['science_before']}\Z", regex.IGNORECASE)
_VERSION_AFTER = regex.compile(
    r"[ ]v?(?!\d{1,2}\.(?:0?[1-9]|1[012])\.\d{2}(?!\d))(?:0|[1-9]\d{0,2})(?:\.\d{1,3}){2}(?![\d/]|\.\d)"
)
_DIGIT_BESIDE = regex.compile(r"[\s,]{0,2}\d")
_CHAT = frozenset(("svp", "stp", "aub", "asap", "btw", "lol", "omg", "idk", "plz", "thx", "eod", "brb", "mfg"))


def public_thing(kind: str, name: str, before: str, after: str) -> bool:
    """Whether `name`, which a tagger takes for a find of `kind`, is that of a thing which identifies nobody.

    `before` and `after`: the text beside it.
    """
    small = name.casefold()
    if small in _THINGS:
        return _DIGIT_BESIDE.match(after) is None and not before[-2:].strip().isdecimal()
    if small in _ABBREVIATIONS:
        return (name.isupper() and (len(name) > 2 or kind == "ORGANIZATION")) or name in _CHAT
    return (
        _of_vehicle(kind, small, before, after)
        or _written(name, before, after)
        or _of_post(small)
        or _of_building(kind, name, before, after)
        or _of_science(name, before, after)
        or (name.islower() and _VERSION_AFTER.match(after) is not None)
    )


def _of_vehicle(kind: str, name: str, before: str, after: str) -> bool:
    make = next((each for each in _beginnings(name) if each in _MAKES), "")
    if make:
        rest = name[len(make) :].strip(" -")
        following = [each for each in _AFTER_WORD.findall(after)[:1] for each in (" ".join(each).casefold(), *each)]
        if rest:
            beginnings = [*_beginnings(rest)]
            return any(each in _MODELS for each in beginnings) or _VEHICLE_BEFORE.search(before) is not None
        if any(each.casefold() in _MODELS for each in following):
            return True
        return _VEHICLE_BEFORE.search(before) is not None or (kind != "PERSON" and _OWNED.search(before) is not None)
    if not any(each in _MODELS for each in _beginnings(name)):
        return False
    if (made := _BEFORE_WORD.search(before)) and {made[2].casefold(), f"{made[1]} {made[2]}".casefold()} & _MAKES:
        return True
    near = f"{before[-40:]}\n{name}\n{after[:24]}"
    return kind != "PERSON" and len(name) > 2 and _VEHICLE.search(near) is not None


def _beginnings(name: str) -> list[str]:
    """Return the first words of a name, the longest part first."""
    words = name.split()[:4]
    return [" ".join(words[:count]) for count in range(len(words), 0, -1)]


def _written(name: str, before: str, after: str) -> bool:
    """Whether a name is a part of the code of an emoji or of the name of a forum."""
    if before[-1:] == ":" and after[:1] == ":":
        return _EMOJI.fullmatch(f":{name}:") is not None
    left, right = before[-2:] if before[-2:] == "r/" else "", after[:22] if name == "r" and after[:1] == "/" else ""
    return _FORUM.match(left + name + right) is not None and not before[: -len(left) or None][-1:].isalnum()


def _of_post(name: str) -> bool:
    words = _WORD.findall(name)
    return 1 < len(words) <= 7 and all(map(_ROLE_WORDS.__contains__, words)) and not _ROLES.isdisjoint(words)


def _of_building(kind: str, name: str, before: str, after: str) -> bool:
    if _PART.fullmatch(name):
        return True
    if kind == "PERSON" and not before.endswith(("the ", "The ")):
        return False
    if _NAMED_PART.fullmatch(name):
        return after[:1] not in "0123456789," or not after[1:3].strip().isdecimal()
    return (_PART_AFTER.match(after) is not None and before.endswith(("the ", "The "))) or (
        kind != "PERSON" and " " not in name and _PART_BEFORE.search(before) is not None
    )


def _of_science(name: str, before: str, after: str) -> bool:
    if _SCIENTISTS.fullmatch(name) is None:
        return False
    return _SCIENCE.match(name + after) is not None or _SCIENCE_BEFORE.search(before) is not None
