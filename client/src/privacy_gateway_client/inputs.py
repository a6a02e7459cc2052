"""What a caller passes to a call, checked before anything is sent: texts, documents and options.

A message names a place, and an option or a member of one. It never repeats a value, a text or a member of a document.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from typing_extensions import get_type_hints

from privacy_gateway_client.errors import FieldError, InvalidRequest, Problem
from privacy_gateway_client.wire import given, json_of

EMBEDDED = ("id", "text", "sentences", "embeddings", "subject")  # the members of a document of `embed_documents`
SANITIZED = ("id", "text", "format", "format_options", "subject")  # and of `sanitize`
_BLANK = "it is blank, and nothing was sent; remove it, or replace it by a text"


def listed(name: str, values: Any, *kinds: type, first: int = 0) -> list[Any]:
    """The values of an argument; one of the kinds alone is a list of one. `first`: the number of the first value.

    Raises TypeError for anything else.
    """
    wanted = " or ".join(kind.__name__ for kind in kinds)
    if isinstance(values, kinds):
        return [values]
    is_list = isinstance(values, Iterable) and not isinstance(values, (str, bytes, bytearray, Mapping))
    if not is_list or getattr(values, "ndim", 1) != 1:
        raise TypeError(f"{name}: pass a list of {wanted}, or one column of a table, not {type(values).__name__}")
    found = list(values)
    for index, value in enumerate(found, start=first):
        if not isinstance(value, kinds):
            raise TypeError(f"{name}[{index}] is of the type {type(value).__name__}; pass {wanted}")
    return found


def texts_of(name: str, texts: Any) -> list[str]:
    """The texts of a call; a string is one text. Raises TypeError, and InvalidRequest for a blank one."""
    found: list[str] = listed(name, texts, str)
    _refuse(FieldError(f"{name}.{index}", _BLANK) for index, text in enumerate(found) if not text.strip())
    return found


def documents_of(documents: Any, members: Sequence[str], *, first: int = 0) -> list[dict[str, Any]]:
    """The documents of a call by their members; a string is the text of one document. `first`: as of `listed`.

    Raises TypeError, and InvalidRequest for a member that no document has.
    """
    found = listed("documents", documents, str, Mapping, first=first)
    return [_members_of(index, document, members) for index, document in enumerate(found, start=first)]


def check_filled(documents: Sequence[Mapping[str, Any]]) -> None:
    """Raises InvalidRequest for documents without content."""
    _refuse(
        error for index, document in enumerate(documents) for error in _content_errors(f"documents.{index}", document)
    )


def _members_of(index: int, document: str | Mapping[str, Any], members: Sequence[str]) -> dict[str, Any]:
    if isinstance(document, str):
        return {"text": document}
    for name in document:
        if name not in members:
            _refuse([FieldError(f"documents.{index}", f"it has an unknown member{_nearest(str(name), members)}")])
    return dict(document)


def _content_errors(place: str, document: Mapping[str, Any]) -> Iterable[FieldError]:
    if "text" in document and document["text"] is not None and not isinstance(document["text"], str):
        yield FieldError(f"{place}.text", "it is not a string")
        return
    text, sentences = document.get("text"), document.get("sentences")
    if isinstance(sentences, (list, tuple)) and not all(isinstance(one, str) for one in sentences):
        yield FieldError(f"{place}.sentences", "each of them is a string")
        return
    contents = [text] if isinstance(text, str) else list(sentences or ())
    if (not contents and document.get("embeddings") is None) or any(not one.strip() for one in contents):
        yield FieldError(place, _BLANK)


def checked(kind: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a call that are not None. `kind`: the TypedDict that lists them.

    Raises TypeError for an option that the call does not have, and InvalidRequest for a value that it does not permit.
    """
    hints = _hints(kind)
    for name in options:
        if name not in hints:
            raise TypeError(f"there is no option `{name}`{_nearest(name, tuple(hints))}")
    for name, value in given(options).items():
        _check_value(name, value, hints[name])
    return given(options)


def check_word(field: str, value: Any, words: Sequence[str]) -> None:
    """Raises InvalidRequest for a value that is none of the words."""
    if value not in words:
        nearest = _nearest(value, words) if isinstance(value, str) else _nearest("", words)
        _refuse([FieldError(field, f"it has no such value{nearest}")])


def _check_value(field: str, value: Any, permitted: Any) -> None:
    if isinstance(permitted, tuple):
        for one in value if isinstance(value, (list, tuple)) else [value]:
            check_word(field, one, permitted)
    elif permitted is not None and not isinstance(value, Mapping):
        _refuse([FieldError(field, f"it is a dictionary with {', '.join(_hints(permitted))}")])
    elif permitted is not None:
        hints = _hints(permitted)
        for name, member in value.items():
            if name not in hints:
                _refuse([FieldError(field, f"it has no member `{name}`{_nearest(str(name), tuple(hints))}")])
            if member is not None:
                _check_value(f"{field}.{name}", member, hints[name])


def _nearest(name: str, known: Sequence[str]) -> str:
    nearest = get_close_matches(name, known, 1)
    return (f"; did you mean `{nearest[0]}`?" if nearest else ";") + f" permitted: {', '.join(known)}"


@lru_cache(maxsize=64)
def _hints(kind: type) -> dict[str, Any]:
    """What each option permits: words, the TypedDict of its members, or None for what the gateway checks alone."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: getattr(hint, "__metadata__", (None,))[0] for name, hint in hints.items()}


def _refuse(errors: Iterable[FieldError]) -> None:
    found = tuple(errors)
    if found:
        raise InvalidRequest(found)


@contextmanager
def numbered(places: Sequence[int]) -> Iterator[None]:
    """Errors of a call name inputs by their places in what the caller passed; `places`: those of the texts sent."""
    try:
        yield
    except (InvalidRequest, Problem) as error:
        error.renumber(places)
        raise


def contents_of(documents: Sequence[Mapping[str, Any]]) -> list[bytes]:
    """What the names of documents in the cache depend on: not their ids."""
    return [json_of({name: one for name, one in document.items() if name != "id"}) for document in documents]
