"""Non-interference under fixed draws: each kind of request and job, under two neighbours, leaves the same behind.

Two gateways of one master key get one of two neighbouring inputs each, with every sampler fixed (`fixed_draws`). The
status, headers and bytes of the answers, the bytes that the language model receives, the journals and accounts of the
ledger, the vault, the records and the files of jobs must be identical, but for what `twin_kit.PUBLIC` lists. A release
that depends on its input beside its draws then differs, whatever its epsilon.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audits.kit import Audit, Found, Scale
from audits.neighbours import Texts
from finetune_kit import checkpoint
from fixed_draws import fixed
from twin_kit import Sent, Twins

POLICIES = """
[policies.slot]
fill = { mode = "dp", epsilon = 4.0 }

[policies.slot-all]
fill = { mode = "dp", epsilon = 4.0 }
mask = { techniques = ["all"] }

[policies.whole]
fill = { mode = "dp", epsilon = 40.0, scope = "document" }
mask = { techniques = ["all"] }

[policies.words]
fill = { mode = "metric_dp", epsilon = 2.5 }
mask = { techniques = ["all"] }

[policies.kept]
proxy = { vault = true }
fill = { mode = "dp", epsilon = 4.0, scope = "document" }
mask = { techniques = ["all"] }

[policies.surrogate]
fill = { mode = "surrogate" }

[policies.surrogate-kept]
proxy = { vault = true }
fill = { mode = "surrogate" }
"""
PRESETS = """
[presets.codes]
endpoint = "sentdp"
mechanism = "sentence_codes"
epsilon = 10

[presets.auto]
endpoint = "sentdp"
mechanism = "sentence_codes"
domain = "auto"
epsilon = 10

[presets.selection]
endpoint = "sentdp"
mechanism = "document_selection"
epsilon = 10

[presets.windows]
endpoint = "sentdp"
mechanism = "sentence_codes"
segmentation = "words"
epsilon = 10

[presets.codebook]
endpoint = "vector"
mechanism = "codebook"
epsilon = 5

[presets.privunit]
endpoint = "vector"
mechanism = "privunit"
epsilon = 5
"""

Pair = tuple[list[Sent], list[Sent]]
Made = Callable[[Texts], Pair]


@dataclass(frozen=True)
class Kind:
    """A kind of request, job or sequence. `make`: two neighbouring sequences of requests. `reuses`: at gateways that
    reuse releases. `share`: of the pairs of an audit."""

    name: str
    make: Made
    reuses: bool = False
    share: float = 1.0


class Attacked:
    """The gateways that are attacked, started when a kind first needs them. `with` it."""

    def __init__(self, policies: str = POLICIES) -> None:
        self._policies = policies
        self._started: dict[bool, Twins] = {}
        self._stack = ExitStack()
        self._drawn: tuple[str, ...] = ()

    def __enter__(self) -> Attacked:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def twins(self, reuses: bool = False) -> Twins:
        if reuses not in self._started:
            folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="twins-")))
            (folder / "policies.toml").write_text(self._policies)
            (folder / "presets.toml").write_text(PRESETS)
            settings = {
                "PRIVACY_GATEWAY_POLICIES_FILE": str(folder / "policies.toml"),
                "PRIVACY_GATEWAY_PRESETS_FILE": str(folder / "presets.toml"),
                "PRIVACY_GATEWAY_FINETUNE_MODELS": json.dumps({"tiny": str(checkpoint(folder, "bert"))}),
                "PRIVACY_GATEWAY_REUSE_RETENTION_S": "3600" if reuses else "0",
            }
            found = self._started[reuses] = Twins(folder, settings)
            self._stack.callback(found.stop)
        return self._started[reuses]

    def texts(self, *seed: object) -> Texts:
        """A generator of neighbours that has the words which fixed draws give."""
        if not self._drawn:
            tenant, _ = self.twins().tenants()
            words: set[str] = set()
            with fixed():
                for fill in ({"mode": "dp", "epsilon": 4.0}, {"mode": "metric_dp", "epsilon": 2.5}):
                    documents, mask = [{"text": "some words of this text " * 8}], {"techniques": ["all"]}
                    answer = tenant.http.post("/sanitize", json={"documents": documents, "mask": mask, "fill": fill})
                    words.update(answer.json()["data"][0]["text"].split())
            self._drawn = tuple(sorted(words))
        return Texts(seed, self._drawn)

    def differences(self, kind: Kind, pairs: int, seed: object = 0) -> Iterator[str]:
        """What differs of each pair that interferes, of so many, and what the ledger and the vault have at the end.

        Raises RuntimeError for a kind whose first pair is refused: it would audit nothing."""
        texts, both = self.texts(kind.name, seed), self.twins(kind.reuses)
        tenants = both.tenants()
        with fixed():
            for number in range(pairs):
                made = kind.make(texts)
                left = [both.left(side, tenants[side], made[side]) for side in (0, 1)]
                if number == 0 and not all(status < 300 for status in left[0].statuses):
                    raise RuntimeError(f"{kind.name} is refused: {left[0].parts}")
                if (what := left[0].difference(left[1])) is not None:
                    yield f"{kind.name}: {what}"
            kept = [both.kept(tenant) for tenant in tenants]
            if (what := kept[0].difference(kept[1])) is not None:
                yield f"{kind.name}: {what}"


def interference(kinds: Iterable[Kind], pairs: int) -> Found:
    """How many pairs interfere. Raises RuntimeError for a kind that the gateway refuses."""
    total, found, names = 0, list[str](), list[str]()
    with Attacked() as attacked:
        for kind in kinds:
            own = max(2, round(pairs * kind.share))
            found += attacked.differences(kind, own)
            names.append(kind.name)
            total += own
    shown = f"{len(names)} kinds: {', '.join(names)}"
    if found:
        shown += f"; differ: {', '.join(dict.fromkeys(found))}"
    return Found(float(len(found)), 0.0, total, shown)


def audit_of(name: str, mechanism: str, adjacency: str, kinds: Callable[[], Iterable[Kind]], pairs: int) -> Audit:
    """A row of the page: `pairs` of each kind in a full run, a tenth in a quick one."""

    def run(scale: Scale) -> Found:
        return interference(kinds(), pairs if scale.runs >= 1_000_000 else max(2, pairs // 10))

    return Audit(name, "fixed draws", mechanism, "one output", adjacency, run, unit="pairs differ")


def one(path: str, make: Callable[[Texts], tuple[Any, Any]], **headers: str) -> Made:
    """A request of one body each, with the characters of its JSON escaped at random."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    def made(texts: Texts) -> Pair:
        first, second = make(texts)
        return [Sent(path, texts.body(first), named)], [Sent(path, texts.body(second), named)]

    return made


def both_ways(body: Callable[..., Any], make: Callable[[Texts], tuple[Any, Any]]) -> Callable[[Texts], tuple[Any, Any]]:
    """Two bodies of two neighbouring texts, beside a companion that is the same."""

    def made(texts: Texts) -> tuple[Any, Any]:
        first, second = make(texts)
        companions = [texts.words(texts.random.choice((1, 3, 20))) for _ in range(texts.random.choice((0, 0, 2)))]
        place = texts.random.randint(0, len(companions))
        return tuple(body([*companions[:place], own, *companions[place:]]) for own in (first, second))  # type: ignore[return-value]

    return made
