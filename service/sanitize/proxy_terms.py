"""What a policy says about requests to language models, beside its mask and its fill."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from service.http.strict import Strict


class ProxyTerms(Strict):
    """The table `proxy` of a policy.

    `definitions`: descriptions of tools and schemas. `media`: images, sound, files and content of unknown types, which
    nothing reads. `identifiers`: names that a client gives to its users; `pseudonym` replaces each by a keyed one.
    `block`: types that are no part of any request; a request with one is refused. `vault`: surrogates and originals are
    kept, sealed, for conversations that the upstream keeps.
    """

    definitions: Literal["mask", "pass"] = "mask"
    media: Literal["refuse", "pass"] = "refuse"
    identifiers: Literal["pseudonym", "pass"] = "pseudonym"
    block: list[str] = Field(default=[], max_length=128)
    vault: bool = False
