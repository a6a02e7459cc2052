"""Policies: masks and fills that the operator defines for `/sanitize`, and the tenants that own allow lists.

A TOML file (setting `POLICIES_FILE`) defines policies. A policy has a mask and a fill. `tenants` may name it; without
this member all tenants may. Tenants in `default_for` (`"*"`: those that no other policy names) get it if a request
names neither a mask nor a policy. With `enforced` they always get it and may name nothing else. The table `allow_lists`
assigns lists to tenants; other tenants cannot name such a list.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal, TypeVar, cast

from pydantic import Field, StringConstraints, ValidationError, model_validator

from core.errors import InvalidInput, PolicyEnforced
from core.text.own_recognisers.definition import OwnReference, RecogniserFile, RecogniserLimits
from core.text.own_recognisers.recogniser import check
from core.text.policy import ALLOW_LIST_DEFAULT, PRICED_FILLS, TAGGED_ENTITIES
from service.config.data_dir import NAME
from service.config.settings import Settings, SettingsRefused
from service.http.strict import Strict, findings, names
from service.sanitize.answers import PolicyRecogniser, VisiblePolicy
from service.sanitize.pricing import price, tasks_of
from service.sanitize.recognisers.store import PolicyRecognisers, RecogniserBody
from service.sanitize.schemas import Fill, MaskBody, SanitizeRequest, Terms, TextDocument

_MemberPath = Annotated[str, Field(pattern=r"^[A-Za-z_$][A-Za-z0-9_.$-]{0,255}$")]


class ProxyTerms(Strict):
    """The table `proxy` of a policy.

    `definitions`: descriptions of tools and schemas. `system`: system prompts and instructions, of
    which `patterns` masks what patterns find. `media`: images, sound,
    files and content of unknown types, which nothing reads. `identifiers`: names that a client gives to its users;
    `pseudonym` replaces each by a keyed one. `block`: types that are no part of any request; a request with one is
    refused. `vault`: surrogates and originals are kept, sealed, for conversations that the upstream keeps. `unread`:
    members of requests that leave as they are, by the names on their paths (`tools.server_url`), although nothing reads
    them.
    """

    definitions: Literal["mask", "pass"] = "mask"
    system: Literal["mask", "patterns", "pass"] = "mask"
    media: Literal["refuse", "pass"] = "refuse"
    identifiers: Literal["pseudonym", "pass"] = "pseudonym"
    block: list[str] = Field(default=[], max_length=128)
    vault: bool = False
    unread: list[_MemberPath] = Field(default=[], max_length=128)


PolicyName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
RecogniserName = Annotated[str, StringConstraints(pattern=rf"^{NAME}$")]
EVERYBODY = "*"

AnyTerms = TypeVar("AnyTerms", bound=Terms)


class Policy(Strict):
    """One policy of the file; `mask` and `fill` are those of a request. Its `recognisers` always run."""

    tenants: list[str] | None = Field(None, min_length=1)
    default_for: list[str] = Field(default=[])
    enforced: bool = False
    mask: MaskBody = MaskBody()
    fill: Fill = Fill()
    recognisers: dict[RecogniserName, RecogniserBody] = Field(default={})
    proxy: ProxyTerms = ProxyTerms()

    @model_validator(mode="after")
    def _fits(self) -> Policy:
        if self.enforced and not self.default_for:
            raise ValueError("enforced, but the default for nobody")
        if self.tenants is not None and not set(self.default_for) <= set(self.tenants):
            raise ValueError("the default for a tenant who is not among its tenants")
        if self.mask.recognisers is not None:
            raise ValueError("a policy defines its recognisers in the table `recognisers`")
        return self

    def serves(self, tenant: str) -> bool:
        return self.tenants is None or tenant in self.tenants


class _File(Strict):
    policies: dict[PolicyName, Policy] = Field(default={})
    allow_lists: dict[str, list[str]] = Field(default={})


class Policies:
    """The operator's policies and the owners of allow lists. `lists`: all installed ones. `recognisers`: the
    definitions of each policy."""

    def __init__(
        self,
        policies: Mapping[str, Policy],
        *,
        owners: Mapping[str, Sequence[str]],
        lists: Sequence[str],
        recognisers: PolicyRecognisers = MappingProxyType({}),
    ):
        self.recognisers = recognisers
        self._policies = dict(policies)
        self._owners = dict(owners)
        self._lists = tuple(lists)
        self._defaults = {tenant: name for name, policy in policies.items() for tenant in policy.default_for}

    def allow_lists(self, tenant: str) -> tuple[str, ...]:
        """The allow lists that `tenant` may name."""
        return tuple(name for name in self._lists if tenant in self._owners.get(name, (tenant,)))

    def visible(self, tenant: str) -> list[VisiblePolicy]:
        """The policies that `tenant` may or must use."""
        default = self._default_of(tenant)
        bound = self.enforced(tenant)
        return [
            {
                "name": name,
                "default": name == default,
                "enforced": name == default and policy.enforced,
                "mask": policy.mask.model_dump(exclude_none=True),
                "fill": policy.fill.model_dump(exclude_none=True),
                "proxy": policy.proxy.model_dump(),
                "recognisers": [
                    cast(PolicyRecogniser, {"name": own, "entity": definition.entity, **definition.counts()})
                    for own, definition in self.recognisers.get(name, {}).items()
                ],
            }
            for name, policy in self._policies.items()
            if policy.serves(tenant) and (name == default or not bound)
        ]

    def applied(self, params: AnyTerms, tenant: str) -> AnyTerms:
        """The request with the mask, fill and name of the policy that applies; unchanged if none applies.

        Raises:
            PolicyEnforced: the tenant's policy admits nothing else.
            InvalidInput: no such policy, or another tenant's; a policy and a mask.
        """
        named = params.model_fields_set
        default = self._default_of(tenant)
        if default is not None and self._policies[default].enforced:
            policy = self._policies[default]
            if not _admits(default, policy, params):
                raise PolicyEnforced
            return params.model_copy(update={"policy": default, "mask": policy.mask, "fill": policy.fill})
        if params.policy is not None and "mask" in named:
            raise InvalidInput("Name a policy or a mask, not both.", field="policy")
        name = params.policy if params.policy is not None or "mask" in named else default
        if name is None:
            return params
        if name not in self._policies or not self._policies[name].serves(tenant):
            raise InvalidInput("There is no such policy; GET /policies names yours.", field="policy")
        policy = self._policies[name]
        fill = params.fill if "fill" in named else policy.fill
        return params.model_copy(update={"policy": name, "mask": policy.mask, "fill": fill})

    def proxied(self, name: str | None) -> ProxyTerms:
        """What a policy says about requests to language models; the defaults without a policy."""
        return ProxyTerms() if name is None else self._policies[name].proxy

    def enforced(self, tenant: str) -> bool:
        """Whether the tenant's policy admits nothing else."""
        default = self._default_of(tenant)
        return default is not None and self._policies[default].enforced

    def _default_of(self, tenant: str) -> str | None:
        return self._defaults.get(tenant, self._defaults.get(EVERYBODY))


def _admits(name: str, policy: Policy, params: Terms) -> bool:
    """Whether a request names only what the enforced policy sets."""
    named = params.model_fields_set
    return (
        params.policy in (None, name)
        and ("mask" not in named or params.mask == policy.mask)
        and ("fill" not in named or params.fill == policy.fill)
    )


def load_policies(settings: Settings, *, lists: Sequence[str]) -> Policies:
    """The policies of the operator's file; none without a file.

    Raises:
        SettingsRefused: the file cannot be read, is not TOML, or contains a policy that no request could use.
    """
    if settings.policies_file is None:
        return Policies({}, owners={}, lists=lists)
    read = _read(settings.policies_file)
    if ALLOW_LIST_DEFAULT in read.allow_lists:
        raise SettingsRefused(f"POLICIES_FILE: the allow list {ALLOW_LIST_DEFAULT} is everybody's")
    unknown = read.allow_lists.keys() - set(lists)
    if unknown:
        raise SettingsRefused(f"POLICIES_FILE: there is no allow list {', '.join(sorted(unknown))}")
    defaults: dict[str, str] = {}
    for name, policy in read.policies.items():
        _check(name, policy, settings, lists=lists, owners=read.allow_lists)
        for tenant in policy.default_for:
            if tenant in defaults:
                raise SettingsRefused(f"POLICIES_FILE: {defaults[tenant]} and {name} are both the default for {tenant}")
            defaults[tenant] = name
    recognisers = {
        name: {own: body.definition() for own, body in policy.recognisers.items()}
        for name, policy in read.policies.items()
    }
    return Policies(read.policies, owners=read.allow_lists, lists=lists, recognisers=recognisers)


def _check(
    name: str, policy: Policy, settings: Settings, *, lists: Sequence[str], owners: Mapping[str, Sequence[str]]
) -> None:
    """Check that a request by this policy can be served, and that its tenants may use its allow list."""
    body = SanitizeRequest(documents=[TextDocument(text="text")], mask=policy.mask, fill=policy.fill)
    try:
        # What the tagger and the model support is known only once a worker is ready. Requests are checked again.
        cost = price(body, settings, None)
        (task,) = tasks_of(body, settings, cost, allow_lists=lists, tagger_types=TAGGED_ENTITIES, own=_checked(policy))
    except InvalidInput as error:
        raise SettingsRefused(f"POLICIES_FILE: the policy {name}: {error.field}: {error.detail}") from None
    if policy.fill.mode in PRICED_FILLS and (policy.proxy.block or policy.proxy.media == "pass"):
        raise SettingsRefused(
            f"POLICIES_FILE: the policy {name}: beside a fill with a price there is neither proxy.block, which would "
            "show what a text holds, nor proxy.media = 'pass', which nothing protects"
        )
    if not task.policy.looks_for(policy.proxy.block):
        raise SettingsRefused(
            f"POLICIES_FILE: the policy {name}: proxy.block has a type that its mask does not look for"
        )
    owned_by = owners.get(policy.mask.allow_list)
    if owned_by is not None and (policy.tenants is None or not set(policy.tenants) <= set(owned_by)):
        raise SettingsRefused(f"POLICIES_FILE: the policy {name} has tenants who may not use its allow list")


def _checked(policy: Policy) -> list[OwnReference]:
    """Stand-ins for the recognisers of a policy, whose files are written at the start. Raises InvalidInput."""
    own = []
    for name, body in policy.recognisers.items():
        try:
            check(body.definition(), RecogniserLimits())
        except InvalidInput as error:
            error.field = f"recognisers.{name}.{error.field}"
            raise
        own.append(OwnReference(name, body.entity, RecogniserFile("", "", b"", name)))
    return own


def _read(path: Path) -> _File:
    try:
        return _File.model_validate(tomllib.loads(path.read_text()))
    except ValidationError as error:
        wrong = names(findings(error))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        wrong = str(error)
    raise SettingsRefused(f"POLICIES_FILE {path}: {wrong}")
