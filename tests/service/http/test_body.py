"""The scan of a JSON text: nesting, values and containers, with strings and escapes anywhere."""

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.exceptions import HTTPException

from core.errors import InvalidInput
from service.http import body
from service.http.body import JsonLimits, check_json

_ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('"\\[]{},:x', max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('"\\[]{},:k', max_size=4), inner, max_size=4),
    max_leaves=20,
)

# an example that takes long shows only that the machine is busy
_anytime = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def _depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0


def _containers(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + sum(map(_containers, inner))


@_anytime
@given(_ANY_JSON)
def test_the_scan_sees_what_the_parser_builds(value: object) -> None:
    text = orjson.dumps(value)
    depth, containers = _depth(value), _containers(value)
    check_json(text, JsonLimits(depth_max=depth, values_max=max(8 * containers, len(text))))
    if depth:
        with pytest.raises(HTTPException):
            check_json(text, JsonLimits(depth_max=depth - 1, values_max=10_000))
        with pytest.raises(InvalidInput):
            check_json(text, JsonLimits(depth_max=depth, values_max=8 * containers - 1))


@pytest.mark.parametrize("step_bytes", [1, 2, 3, 5])
@_anytime
@given(value=_ANY_JSON)
def test_steps_of_any_size_see_the_same(value: object, step_bytes: int) -> None:
    text = orjson.dumps(value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(body, "_STEP_BYTES", step_bytes)
        test_the_scan_sees_what_the_parser_builds.hypothesis.inner_test(value)  # type: ignore[attr-defined]
        assert orjson.loads(text) == value


def test_numbers_are_values_and_keys_count() -> None:
    check_json(b"[" + b"0," * 99 + b"0]", JsonLimits(depth_max=1, values_max=100))
    with pytest.raises(InvalidInput):
        check_json(b"[" + b"0," * 100 + b"0]", JsonLimits(depth_max=1, values_max=100))
    with pytest.raises(InvalidInput):
        check_json(b'{"a": 0, "b": 0}', JsonLimits(depth_max=1, values_max=3))
