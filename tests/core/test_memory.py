"""What the cache keeps, and what it drops."""

from core.memory import ByteCache


def test_the_least_recently_used_values_are_dropped() -> None:
    cache: ByteCache[str, int] = ByteCache(10)
    cache.put("a", 1, 5)
    cache.put("b", 2, 5)
    assert cache.get("a") == 1
    cache.put("c", 3, 4)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)


def test_a_value_that_is_too_large_is_not_kept_and_drops_nothing() -> None:
    cache: ByteCache[str, int] = ByteCache(10)
    cache.put("a", 1, 10)
    cache.put("b", 2, 11)
    assert (cache.get("a"), cache.get("b")) == (1, None)


def test_space_is_made_before_a_value_is_computed() -> None:
    cache: ByteCache[str, int] = ByteCache(10)
    cache.put("a", 1, 4)
    cache.put("b", 2, 4)
    cache.make_space(6)
    assert (cache.get("a"), cache.get("b")) == (None, 2)


def test_small_values_are_limited_in_number() -> None:
    cache: ByteCache[str, int] = ByteCache(10, count_max=2)
    for key in ("a", "b", "c"):
        cache.put(key, 1, 1)
    assert [key for key in ("a", "b", "c") if cache.get(key) is not None] == ["b", "c"]
