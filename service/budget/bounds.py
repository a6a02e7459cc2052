"""`GET /budget/{account}/bounds`: what is proven of an account, and what is an estimate, each with its label."""

import asyncio
from typing import Annotated

from fastapi import APIRouter
from typing_extensions import TypedDict

from core.accounting.plans import Kind
from core.amounts import delta_of, epsilon_of
from core.ledger.records import AccountState, TenantMode
from core.ledger.transitions import Ledger
from service.config.settings import Settings
from service.http.answers import doc
from service.http.auth import ReadCallerDep
from service.http.body import JsonRoute
from service.parts import Part
from service.releases.answers import AccountantLine, block_with_history

router = APIRouter(route_class=JsonRoute, tags=["budget"])

PROVEN, ESTIMATE, NONE = "proven", "estimate", "none"
_LIMIT = (
    "Proven: everything that this account ever admits is together (epsilon, delta)-differentially private, however "
    "the requests depended on earlier answers."
)
_CERTIFICATE = (
    "Proven: all releases of the plan together, however many of them are made. The privacy loss distribution is "
    "computed with every rounding upwards."
)
_NO_CERTIFICATE = "No value: only a plan fixes the releases in advance, which a certificate needs."
_METRIC = "No value: the epsilon of this account is per unit of distance, which this accountant does not cover."
_QUOTA = (
    "No value: this is a quota over the sum of all subjects, an operational limit. The guarantee is that of each "
    "subject's account."
)
_SENTENCES = {
    ("basic", PROVEN): "Proven: the sum over the releases so far.",
    ("renyi", PROVEN): "Proven: nothing was released.",
    ("edgeworth", PROVEN): "Proven: nothing was released.",
    ("renyi", ESTIMATE): "An estimate: it is a bound only if no release was chosen because of an earlier answer.",
    ("edgeworth", ESTIMATE): "An estimate: close to the true value if no release was chosen because of an earlier "
    "answer, but with no proven error.",
}
_LABELS = {
    Kind.BOUND.value: PROVEN,
    Kind.ESTIMATE.value: ESTIMATE,
    Kind.VACUOUS.value: NONE,
    Kind.NO_UNIQUE_ROOT.value: NONE,
}
_NAMES = {"basic": "basic", "rdp": "renyi", "edgeworth": "edgeworth"}  # as `accountants` of an account calls them


class BoundLine(TypedDict):
    """A figure of an account, and what it claims."""

    name: Annotated[str, doc("`limit`, `basic`, `renyi`, `certificate` or `edgeworth`.")]
    label: Annotated[str, doc("`proven`, `estimate`, or `none` without a value.")]
    epsilon: Annotated[float | None, doc("The epsilon; null without a value.")]
    delta: Annotated[float | None, doc("The delta at which it is stated; null without a value.")]
    sentence: Annotated[str, doc("What the figure claims, in a sentence.")]


class AccountBounds(TypedDict):
    """What is proven of an account, and what is an estimate."""

    account: Annotated[str, doc("The id of the account.")]
    lines: Annotated[list[BoundLine], doc("The figures.")]


@router.get("/budget/{account:path}/bounds", summary="What is proven of an account, and what is an estimate")
async def get_bounds(
    account: str, caller: ReadCallerDep, ledger: Part[Ledger], settings: Part[Settings]
) -> AccountBounds:
    """`limit` and `certificate` are of the account, whatever it will release; the others are of its releases so far."""
    state = await ledger.account(caller.tenant, account)
    is_quota = state.subject_hash is None and (await ledger.tenant(caller.tenant)).mode is TenantMode.SUBJECT
    lines = await asyncio.to_thread(_lines, state, settings.display_delta, is_quota=is_quota)
    return {"account": account, "lines": lines}


def _lines(state: AccountState, display_delta: float, *, is_quota: bool) -> list[BoundLine]:
    limit = (epsilon_of(state.limit.epsilon_nano), delta_of(state.limit.delta_femto))
    found = {line["name"]: line for line in block_with_history(state, display_delta)["accountants"]}
    own = _line("limit", NONE, _QUOTA) if is_quota else _line("limit", PROVEN, _LIMIT, *limit)
    lines = [own, _history_line("basic", found["basic"])]
    for accountant, name in list(_NAMES.items())[1:]:
        lines.append(_history_line(name, found[accountant]) if accountant in found else _line(name, NONE, _METRIC))
    if state.plan is None:
        certificate = _line("certificate", NONE, _NO_CERTIFICATE)
    else:
        certificate = _line("certificate", PROVEN, _CERTIFICATE, *limit)
    lines.insert(3, certificate)
    return lines


def _history_line(name: str, found: AccountantLine) -> BoundLine:
    label = _LABELS[found["kind"]]
    sentence = (
        _SENTENCES.get((name, label)) or f"No value: {found.get('note') or 'a release has no epsilon of its own'}."
    )
    return _line(name, label, sentence, found["epsilon"], found["delta"])


def _line(name: str, label: str, sentence: str, epsilon: float | None = None, delta: float | None = None) -> BoundLine:
    return {"name": name, "label": label, "epsilon": epsilon, "delta": delta, "sentence": sentence}
