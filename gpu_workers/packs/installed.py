"""Loads an installed domain pack. The front end and the workers accept the same files."""

from __future__ import annotations

from pathlib import Path

from core.mechanisms.sentences.domain_pack import NAME, DomainPack, InvalidPack
from core.mechanisms.sentences.routes import AUTO


def load_pack(name: str, path: Path, *, encoder_fingerprint: str | None = None) -> DomainPack:
    """Load and check the installed pack `name`. Raises: InvalidPack as `DomainPack.load`, and for a name that no
    request can have."""
    if name == AUTO or not NAME.fullmatch(name):
        raise InvalidPack("no domain can have this name")
    return DomainPack.load(path, encoder_fingerprint=encoder_fingerprint)
