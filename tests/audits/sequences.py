"""Sequences of releases that the real ledger admits, replayed through an accountant that is not the ledger's.

Every release stands for a concrete mechanism of its kind, one that attains the kind's bound or comes near it. What an
independent accountant says of a sequence is therefore the truth about something that the ledger admitted.

* `certified`: strategies fill fresh accounts of several limits until nothing more is admitted. Google's privacy loss
  distributions compose each whole sequence; its epsilon at the account's delta must be at most the account's epsilon.
* `adaptive`: the next release depends on the realised privacy loss of the earlier ones, as an attacker would choose.
  The mean of max(0, 1 - e^(epsilon - loss)) over the sequences estimates the true delta of the whole interaction; a
  lower confidence bound on it must be at most the account's delta. The strategy is fixed by pilot sequences.
"""

import asyncio
import math
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from pathlib import Path

import numpy as np
from audit_kit import ERROR_RATE
from audits.kit import Audit, Found, Scale
from dp_accounting.pld import common
from dp_accounting.pld import privacy_loss_distribution as google

from core.accounting.events import Adjacency, Guarantee, PrivacyEvent, Unit
from core.amounts import FEMTO, NANO
from core.errors import BudgetExhausted
from core.ledger.records import Charge, Limit
from core.ledger.transitions import Ledger
from core.master_key import MasterKey
from core.redis.client import LedgerClient, connect
from core.redis.embedded import EmbeddedRedis

GRID = 2.0**-10  # of the losses
STEP = 2 * GRID  # the epsilons below are multiples of it, so that no loss lies between two points of the grid
_ON_GRID = 1e-10  # what keeps a loss from being rounded to the next point for its last digit
AT_ONCE = 64
KINDS = ("gaussian", "pure", "laplace", "permute_and_flip", "exponential", "approximate")
Limits = tuple[float, float]
LIMITS: tuple[Limits, ...] = ((10.0, 1e-6), (1.0, 1e-5), (3.0, 1e-4), (0.5, 1e-3))
ADAPTIVE: Limits = (0.5, 0.05)
ADAPTIVE_PILOT = 2_000


@dataclass(frozen=True)
class ReleaseRequest:
    """One mechanism: its kind and its epsilon (for `gaussian` 1 / noise multiplier), and a delta for `approximate`."""

    kind: str
    size: float
    delta: float = 0.0

    @property
    def event(self) -> PrivacyEvent:
        noisy = self.kind == "gaussian"
        return PrivacyEvent(
            mechanism=f"audit-{self.kind}",
            kind=self.kind,
            unit=Unit.RECORD,
            adjacency=Adjacency.REPLACE_ONE,
            guarantee=Guarantee.APPROX_DP,
            epsilon_nano=0 if noisy else round(self.size * NANO),
            delta_femto=round(self.delta * FEMTO),
            noise_multiplier=1 / self.size if noisy else None,
        )

    def losses(self, rng: np.random.Generator, times: int) -> float:
        """The privacy loss of `times` runs on the input that the attacker hopes for."""
        if self.kind == "gaussian":
            return float(rng.normal(times * self.size**2 / 2, math.sqrt(times) * self.size))
        if self.kind in ("laplace", "permute_and_flip"):
            at = rng.laplace(size=times)
            return float((np.abs(at - self.size) - np.abs(at)).sum())
        if self.kind == "exponential":
            high = rng.binomial(times, _range_keeps(self.size))
            return high * self.size / 2 - (times - high) * self.size / 2
        if self.kind == "approximate" and rng.random() < 1 - (1 - self.delta) ** times:
            return math.inf
        kept = rng.binomial(times, 1 / (1 + math.exp(-self.size)))
        return (2 * kept - times) * self.size


def _range_keeps(epsilon: float) -> float:
    """An exponential mechanism with two outcomes, of losses epsilon / 2 and -epsilon / 2."""
    return (math.exp(epsilon) - math.exp(epsilon / 2)) / math.expm1(epsilon)


@lru_cache(maxsize=4096)
def _distribution(release: ReleaseRequest) -> google.PrivacyLossDistribution:
    """The losses of one run, rounded up to the grid."""
    options = {"value_discretization_interval": GRID}
    if release.kind == "gaussian":
        return google.from_gaussian_mechanism(1 / release.size, **options)
    if release.kind in ("laplace", "permute_and_flip"):
        return google.from_laplace_mechanism(1 / release.size, **options)
    if release.kind == "exponential":
        keep = _range_keeps(release.size)
        upper = {0: math.log(keep), 1: math.log1p(-keep)}
        lower = {0: upper[0] - release.size / 2 + _ON_GRID, 1: upper[1] + release.size / 2 + _ON_GRID}
        return google.from_two_probability_mass_functions(lower, upper, **options)
    parameters = common.DifferentialPrivacyParameters(release.size, release.delta)
    return google.from_privacy_parameters(parameters, **options)


def certified_epsilon(sequence: Sequence[tuple[ReleaseRequest, int]], delta: float) -> float:
    """Epsilon at `delta` of the sequence by privacy loss distributions; Gaussian releases are one first."""
    square = sum(times * release.size**2 for release, times in sequence if release.kind == "gaussian")
    parts = [_distribution(release).self_compose(times) for release, times in sequence if release.kind != "gaussian"]
    if square:
        parts.append(google.from_gaussian_mechanism(1 / math.sqrt(square), value_discretization_interval=GRID))
    if not parts:
        return 0.0
    return float(reduce(lambda one, other: one.compose(other), parts).get_epsilon_for_delta(delta))


class Player:
    """Asks for releases on one fresh account and remembers what was admitted."""

    def __init__(self, ledger: Ledger, tenant: str, subject: str, rng: np.random.Generator) -> None:
        self._ledger, self._tenant, self._subject = ledger, tenant, subject
        self.rng = rng
        self.admitted: list[tuple[ReleaseRequest, int]] = []
        self.loss = 0.0

    async def ask(self, release: ReleaseRequest, times: int = 1) -> bool:
        try:
            hold = await self._ledger.reserve(self._tenant, [Charge(release.event, self._subject, times)])
        except BudgetExhausted:
            return False
        if self.rng.random() < 0.05:  # what was cancelled has shown nothing
            await self._ledger.cancel(self._tenant, hold.release_id, reason="audit")
            return True
        await self._ledger.commit(self._tenant, hold.release_id)
        self.admitted.append((release, times))
        self.loss += release.losses(self.rng, times)
        return True

    async def fill(self, release: ReleaseRequest, times: int = 64) -> None:
        """As many as are admitted, in shrinking groups."""
        while times:
            if not await self.ask(release, times):
                times //= 2


def _size(rng: np.random.Generator, epsilon: float) -> float:
    """A grid epsilon between a hundredth and half of the limit, log-uniformly."""
    size = epsilon * math.exp(rng.uniform(math.log(0.01), math.log(0.5)))
    return max(STEP, round(size / STEP) * STEP)


def _any(rng: np.random.Generator, limit: Limits, kinds: Sequence[str] = KINDS) -> ReleaseRequest:
    kind = str(rng.choice(list(kinds)))
    share = math.exp(rng.uniform(math.log(0.001), math.log(1.0)))
    return ReleaseRequest(kind, _size(rng, limit[0]), limit[1] * share if kind == "approximate" else 0.0)


async def anything(player: Player, limit: Limits) -> None:
    for _ in range(12):
        await player.ask(_any(player.rng, limit), int(player.rng.integers(1, 8)))
    for kind in player.rng.permutation(list(KINDS)):
        await player.fill(_any(player.rng, limit, [str(kind)]), 16)


async def one_kind(player: Player, limit: Limits) -> None:
    await player.fill(_any(player.rng, limit))


async def first_release_then_others(player: Player, limit: Limits) -> None:
    """The first release decides how delta is divided; the rest wants another division."""
    await player.ask(_any(player.rng, limit))
    for _ in range(3):
        await player.fill(_any(player.rng, limit))


async def two_kinds_by_turns(player: Player, limit: Limits) -> None:
    pair = [_any(player.rng, limit), _any(player.rng, limit)]
    while await player.ask(pair[0], 4) and await player.ask(pair[1], 4):
        pass
    for release in pair:
        await player.fill(release, 4)


async def small_then_large(player: Player, limit: Limits) -> None:
    kinds = ["gaussian", "pure", "laplace", "exponential"]
    small = ReleaseRequest(str(player.rng.choice(kinds)), max(STEP, round(limit[0] / 50 / STEP) * STEP))
    for _ in range(int(player.rng.integers(1, 6))):
        await player.ask(small, 16)
    await player.fill(ReleaseRequest(str(player.rng.choice(kinds)), round(limit[0] / 3 / STEP) * STEP), 4)
    await player.fill(small)


async def by_luck(player: Player, limit: Limits) -> None:
    """Where the loss is high few large releases may pass the limit, where it is low many small ones."""
    small, large = round(limit[0] / 10 / STEP) * STEP, round(limit[0] * 0.4 / STEP) * STEP
    await player.ask(ReleaseRequest("pure", large))
    if player.loss > 0:
        await player.fill(ReleaseRequest("pure", large), 2)
        await player.fill(ReleaseRequest("approximate", large, limit[1] / 4), 2)
    await player.fill(ReleaseRequest("gaussian", small), 16)
    await player.fill(ReleaseRequest("pure", small), 16)


async def stop_when_ahead(player: Player, limit: Limits) -> None:
    """Ends as soon as the loss is above epsilon; else spends all that there is."""
    size = round(limit[0] / 4 / STEP) * STEP
    while player.loss <= limit[0] and await player.ask(ReleaseRequest("gaussian", size)):
        pass
    while player.loss <= limit[0] and await player.ask(ReleaseRequest("pure", size / 2)):
        pass


async def double_when_behind(player: Player, limit: Limits) -> None:
    size = round(limit[0] / 8 / STEP) * STEP
    while player.loss <= limit[0]:
        behind = limit[0] - player.loss
        wanted = min(2 * limit[0], max(size, round(behind / STEP) * STEP))
        kind = str(player.rng.choice(["pure", "gaussian", "laplace"]))
        if not await player.ask(ReleaseRequest(kind, wanted)) and not await player.ask(ReleaseRequest("pure", size)):
            return


async def gaussian_alone(player: Player, limit: Limits) -> None:
    await player.fill(ReleaseRequest("gaussian", round(limit[0] / 10 / STEP) * STEP), 16)


async def leak_first(player: Player, limit: Limits) -> None:
    await player.ask(ReleaseRequest("approximate", round(limit[0] / 2 / STEP) * STEP, limit[1] * 0.99))
    if player.loss < math.inf:
        await player.fill(ReleaseRequest("pure", STEP * 5))
        await player.fill(ReleaseRequest("gaussian", 0.02))


Strategy = Callable[[Player, Limits], Coroutine[None, None, None]]
FILLING = (anything, one_kind, first_release_then_others, two_kinds_by_turns, small_then_large)
BY_LOSS = (by_luck, stop_when_ahead, double_when_behind, gaussian_alone, leak_first)


async def _played(strategy: Strategy, limit: Limits, count: int, seed: int) -> list[Player]:
    """`count` sequences of a strategy, each on a fresh account of `limit`."""
    with tempfile.TemporaryDirectory(prefix="sequences-") as folder:
        server = EmbeddedRedis(Path(folder))
        await server.start()
        client = LedgerClient(connect(socket_path=server.socket))
        ledger = Ledger(client, MasterKey(bytes(32)))
        limits = dict.fromkeys(Unit, Limit(round(limit[0] * NANO), round(limit[1] * FEMTO)))
        quota = dict.fromkeys(Unit, Limit(4_000_000 * NANO, FEMTO))
        await ledger.open_tenant("audit", limits=quota, subject_limits=limits)
        seeds = np.random.SeedSequence(seed).spawn(count)
        players = [Player(ledger, "audit", f"s{i}", np.random.default_rng(each)) for i, each in enumerate(seeds)]
        turns = asyncio.Semaphore(AT_ONCE)

        async def play(player: Player) -> None:
            async with turns:
                await strategy(player, limit)

        await asyncio.gather(*map(play, players))
        await ledger.close()
        await server.stop()
    return players


def certified(scale: Scale) -> Found:
    """The largest certified epsilon of any admitted sequence, as a share of its account's."""
    count = max(20, scale.runs // 1_000_000 * 12_000 // (len(FILLING) * len(LIMITS)))
    worst, which, total = 0.0, "", 0
    for limit in LIMITS:
        for index, strategy in enumerate(FILLING):
            for player in asyncio.run(_played(strategy, limit, count, seed=1000 * index + round(limit[0] * 10))):
                total += 1
                share = certified_epsilon(player.admitted, limit[1]) / limit[0]
                if share > worst:
                    worst, which = share, f"{strategy.__name__.replace('_', ' ')} at ({limit[0]:g}, {limit[1]:g})"
    return Found(worst, 1.0, total, f"{which}; largest share of the limit's epsilon", len(FILLING) * len(LIMITS))


def true_delta(players: Sequence[Player], epsilon: float) -> np.ndarray:
    losses = np.array([player.loss for player in players])
    return np.maximum(0.0, -np.expm1(np.minimum(epsilon - losses, 0.0)))


def lower_bound(values: np.ndarray) -> float:
    """Of the mean of numbers in [0, 1]: Maurer and Pontil's empirical Bernstein bound at ERROR_RATE."""
    count, term = len(values), math.log(2 / ERROR_RATE)
    return float(values.mean() - math.sqrt(2 * values.var(ddof=1) * term / count) - 7 * term / (3 * (count - 1)))


def adaptive(scale: Scale) -> Found:
    """A lower bound on the true delta of the strongest adaptive strategy."""
    epsilon, delta = ADAPTIVE
    pilot, count = (ADAPTIVE_PILOT, 30_000) if scale.runs >= 1_000_000 else (100, 500)
    means = [true_delta(asyncio.run(_played(each, ADAPTIVE, pilot, seed=7)), epsilon).mean() for each in BY_LOSS]
    best = BY_LOSS[int(np.argmax(means))]
    players = asyncio.run(_played(best, ADAPTIVE, count, seed=8))
    name = best.__name__.replace("_", " ")
    return Found(lower_bound(true_delta(players, epsilon)), delta, count, f"{name}; true delta", len(BY_LOSS))


def audits() -> tuple[Audit, ...]:
    adjacency = "replace one record"
    return (
        Audit(
            "ledger-certified",
            "compositions",
            "what the ledger admits, composed by privacy loss distributions",
            "(epsilon, delta) of the account",
            adjacency,
            certified,
            unit="of the limit",
        ),
        Audit(
            "ledger-adaptive",
            "compositions",
            "what the ledger admits, chosen by the realised loss",
            f"({ADAPTIVE[0]:g}, {ADAPTIVE[1]:g})",
            adjacency,
            adaptive,
            unit="delta",
        ),
    )
