"""Credentials: what is empty or cut short is none, and is equal to none."""

import pytest

from core import credentials

KEY = "pgw_0123456789abcdef_0123456789abcdef0123456789abcdef"


def test_nothing_else_is_the_same() -> None:
    for presented, expected in [("", ""), ("", KEY), (KEY, ""), (KEY, KEY[:-1]), ("é", "e")]:
        assert not credentials.same_credential(presented, expected)


def test_the_same_is_the_same() -> None:
    assert credentials.same_credential(KEY, KEY)
    assert credentials.same_credential("schlüssel", "schlüssel")


def test_what_is_made_can_be_used() -> None:
    made = credentials.new_admin_key()
    assert credentials.admin_key(f" {made}\n") == made
    assert credentials.new_admin_key() != made
    assert credentials.admin_key("k" * 32) == "k" * 32
    assert credentials.admin_key(f"pga_{'0' * 64}") == f"pga_{'0' * 64}", "an operator's own"
    assert credentials.token("sk-1") == "sk-1"


def test_no_credential_at_all() -> None:
    for bad in ["", " \n", "two words", "line\nbreak", "ümlaut", "\0" * 60]:
        for check in (credentials.token, credentials.admin_key):
            with pytest.raises(ValueError, match="secret") as caught:
                check(bad)
            assert not bad.strip() or bad not in str(caught.value)
