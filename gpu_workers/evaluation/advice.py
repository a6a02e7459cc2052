"""What to use next, by stated rules, as bodies that the gateway takes.

* **Embedding**: of the methods that stay within the tolerance at some epsilon, the one whose bound on an attacker's
  advantage is the smallest at its smallest such epsilon.
* **Sanitising**: the policy after which the fewest persons are unique; then the one that leaves the fewest attributes;
  then the one that loses the fewest ordinary words. If it leaves a kind of attribute in more than LEFT_MAX of the
  texts, the types of that kind join it; those that it masks already get half of their threshold. If it loses more than
  LOST_MAX of the ordinary words, the advice says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from core.evaluation.attack_bounds import AttackBounds
from core.text.policy import DEFAULT, DEFAULT_ENTITIES, ENTITIES
from gpu_workers.evaluation.masking import GROUPS, Masking
from gpu_workers.evaluation.spec import EmbeddingMethod, SanitizingMethod
from gpu_workers.evaluation.utility import MethodUtility

LEFT_MAX, LOST_MAX = 0.02, 0.06


@dataclass(frozen=True)
class Advice:
    """`body`: of a request to the endpoint, without documents. `said`: why, in one or two sentences. `policy_file`: of
    a sanitising policy, the same for all requests of a tenant, as the operator's file takes it."""

    endpoint: str
    name: str
    body: Mapping[str, Any]
    said: str
    policy_file: str | None = None


def policy_file(body: Mapping[str, Any]) -> str:
    """Return a policy as the operator's TOML file has it (`POLICIES_FILE`)."""
    lines = ["[policies.evaluated]"]
    for part in ("mask", "fill"):
        if members := body.get(part):
            lines += ["", f"[policies.evaluated.{part}]"]
            lines += [f"{key} = {_toml(value)}" for key, value in members.items()]
    return "\n".join([*lines, ""])


def _toml(value: Any) -> str:
    """A value of JSON in TOML, which has the same strings, numbers, booleans and lists."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_toml(key)} = {_toml(each)}' for key, each in value.items())} }}"
    return orjson.dumps(value).decode()


def advice_on_embeddings(
    methods: Sequence[EmbeddingMethod],
    found: Sequence[MethodUtility],
    bounds: Mapping[tuple[str, float], AttackBounds],
    tolerance: float,
) -> Advice | None:
    """None if no method stays within the tolerance. `bounds`: by name and epsilon."""
    fitting = [(method, each.smallest_accuracy) for method, each in zip(methods, found, strict=True)]
    chosen = [(method, epsilon) for method, epsilon in fitting if epsilon is not None]
    if not chosen:
        return None
    method, epsilon = min(chosen, key=lambda each: bounds[each[0].name, each[1]].advantage)
    said = (
        f"At epsilon {epsilon:g}, {method.name} keeps at least {1 - tolerance:.0%} of the accuracy without noise. Of "
        "all methods that do, it gives an attacker the least."
    )
    return Advice(method.endpoint, method.name, {**method.body, "epsilon": epsilon}, said)


def advice_on_masking(methods: Sequence[SanitizingMethod], found: Sequence[Masking], texts: int) -> Advice | None:
    """None without policies."""
    if not found:
        return None

    def rank(each: Masking) -> tuple[float, int, float]:
        return each.unique, sum(attribute.surviving for attribute in each.attributes), each.ordinary_lost

    best = min(found, key=rank)
    method = next(each for each in methods if each.name == best.name)
    left = [each.name for each in best.attributes if each.surviving > LEFT_MAX * texts]
    mask = dict(method.body.get("mask", {}))
    wanted = sorted(entity for group in left for entity in GROUPS.get(group, ()))
    policy = method.task.policy
    masked = {*policy.entities} or {*DEFAULT_ENTITIES}
    added = [entity for entity in wanted if entity not in masked]
    lower = {
        entity: round(dict(policy.thresholds).get(entity, ENTITIES[entity].threshold) / 2, 3)
        for entity in wanted
        if entity in masked
    }
    if added:
        mask = {**mask, "entities": [*mask.get("entities", ()), *added]}
        mask |= {} if policy.entities else {"profile": DEFAULT}
    if lower:
        mask["thresholds"] = {**mask.get("thresholds", {}), **lower}
    said = f"After {best.name}, {best.unique:.1%} of the persons are unique by what survives: the fewest."
    if wanted:
        said += f" The body masks more of what survives in more than {LEFT_MAX:.0%} of the texts: {', '.join(left)}."
    if best.ordinary_lost > LOST_MAX:
        said += f" It loses {best.ordinary_lost:.1%} of the ordinary words: raise thresholds if you need them."
    body = {**method.body, **({"mask": mask} if mask else {})}
    return Advice("sanitize", best.name, body, said, policy_file(body))
