"""What moves to the archive, and when."""

from __future__ import annotations

from dataclasses import dataclass

DAY_MS = 24 * 3600 * 1000
OBJECT_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class ArchivePolicy:
    """A tenant keeps `keep_entries` entries in Redis, and no entry that is older than `after_ms`.

    More entries are archived once they fill an object of `object_entries`. Old entries are archived together with all
    that are half as old, so that objects do not become small. `keep_seals` seals stay in Redis. An object has at most
    `object_bytes` of entries before compression, unless one entry is larger. The seal of a record repeats up to
    `repeats_max` tenants that wrote nothing (more only if there are very many); further seals repeat the others.
    """

    keep_entries: int = 20_000
    after_ms: int = 7 * DAY_MS
    object_entries: int = 10_000
    keep_seals: int = 1000
    object_bytes: int = OBJECT_BYTES
    repeats_max: int = 200

    def __post_init__(self) -> None:
        if (
            min(self.keep_entries, self.object_entries, self.keep_seals, self.object_bytes, self.repeats_max) < 1
            or self.after_ms <= 0
        ):
            raise ValueError("each part of the policy is at least one")


@dataclass(frozen=True)
class ArchiveRound:
    """What a round did. `complete`: nothing that the policy moves was left. `waiting` counts archived entries that stay
    in Redis until the series contain them."""

    entries: int = 0
    objects: int = 0
    trimmed: int = 0
    seals_trimmed: int = 0
    waiting: int = 0
    complete: bool = True
