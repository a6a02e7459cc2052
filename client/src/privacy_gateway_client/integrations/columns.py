"""What columns of tables have in common: their texts, where they are, and the facts of releases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from privacy_gateway_client.integrations.calls import Cleaned
from privacy_gateway_client.results import Release


@dataclass(frozen=True)
class Column:
    """The texts of a column that are not missing, and their places in it."""

    texts: list[str]
    places: list[int]
    size: int

    @classmethod
    def of(cls, values: Iterable[Any], *, missing: Iterable[bool]) -> Column:
        """Raises TypeError for a value that is no text."""
        texts, places, size = [], [], 0
        for place, (value, is_missing) in enumerate(zip(values, missing, strict=True)):
            size += 1
            if is_missing:
                continue
            if not isinstance(value, str):
                raise TypeError(f"the value in row {place} is no text")
            texts.append(value)
            places.append(place)
        return cls(texts, places, size)

    def cleaned(self, cleaned: Sequence[Cleaned], missing: Any) -> list[Any]:
        """The sanitised texts in their places."""
        whole = [missing] * self.size
        for place, one in zip(self.places, cleaned, strict=True):
            whole[place] = one.text
        return whole


def facts(releases: Iterable[Release]) -> list[dict[str, Any]]:
    """What the answers say of the privacy of each release, and how many texts it has."""
    return [
        {
            **release.privacy.model_dump(exclude_none=True, exclude_unset=True),
            "inputs": len(release.inputs),
            "cached": release.cached,
        }
        for release in releases
    ]
