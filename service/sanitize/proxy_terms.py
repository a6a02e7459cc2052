"""What a policy says about requests to language models, beside its mask and its fill."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from service.http.strict import Strict

_MemberPath = Annotated[str, Field(pattern=r"^[A-Za-z_$][A-Za-z0-9_.$-]{0,255}$")]


class ProxyTerms(Strict):
    """The table `proxy` of a policy.

    `definitions`: descriptions of tools and schemas. `media`: images, sound, files and content of unknown types, which
    nothing reads. `identifiers`: names that a client gives to its users; `pseudonym` replaces each by a keyed one.
    `block`: types that are no part of any request; a request with one is refused. `vault`: surrogates and originals are
    kept, sealed, for conversations that the upstream keeps. `unread`: members of requests that leave as they are, by
    the names on their paths (`tools.server_url`), although nothing reads them.
    """

    definitions: Literal["mask", "pass"] = "mask"
    media: Literal["refuse", "pass"] = "refuse"
    identifiers: Literal["pseudonym", "pass"] = "pseudonym"
    block: list[str] = Field(default=[], max_length=128)
    vault: bool = False
    unread: list[_MemberPath] = Field(default=[], max_length=128)
