"""Front matter of Markdown: it parses as before, and only the masked values change."""

import datetime
import tomllib
from typing import Any

import pytest
import yaml

from core.errors import InvalidInput
from core.text.formats.builder import FormatLimits, FormatOptions, parse
from core.text.mask_words import AllowLists
from core.text.policy import FILLS, MaskPolicy
from core.text.sanitize import fill_masks, inspect

LISTS = AllowLists()
WORDS = MaskPolicy(techniques=("all",))
MAIL = "jane.roe@acme-corp.com"


def matter(mark: str, text: str, policy: MaskPolicy = WORDS, fill: str = "class_marker") -> str:
    form = parse("markdown", f"{mark}\n{text}\n{mark}\n# A\n", FormatOptions(), FormatLimits(depth_max=20))
    output = fill_masks(inspect(form.view, policy, LISTS, form=form), policy, fill, LISTS).text
    before, inner, after = output.split(f"{mark}\n")
    assert (before, after[:2]) == ("", "# ")
    return inner


def same_shape(old: Any, new: Any) -> bool:
    """Whether `new` is `old` with other strings. A number or date may have become a string."""
    if isinstance(old, dict):
        values = zip(old.values(), new.values(), strict=True)
        return isinstance(new, dict) and all(same_shape(*pair) for pair in values)
    if isinstance(old, list):
        return isinstance(new, list) and all(same_shape(*pair) for pair in zip(old, new, strict=True))
    if old is None or isinstance(old, bool):
        return new is old
    return isinstance(new, str) or (type(new) is type(old) and not isinstance(old, str))


def test_yaml_keeps_its_structure_and_types() -> None:
    for policy in [WORDS, MaskPolicy(entities=("EMAIL_ADDRESS", "CREDIT_CARD"))]:
        for fill in list(FILLS):
            for text in [
                'name: "J\\u0061ne M\\u0069ller"\ncard: "4111\\x201111 1111\\x201111"', "author: {name: Jane Miller}",
                f"- {{e: {MAIL}}}", f'{{e: {MAIL}, "f":"{MAIL}"}}', "name: Jane\n  Miller\n\n  O'Neil\nb: 1",
                "a: !!str Jane Miller", "? Jane Miller", "? Jane Miller\n: x\n", "tags:\n- Jane Miller",
                "people: [Jane Miller, [Bo], {a: Al}]", "x: &a Jane Miller\ny: *a", "x: &a !!str  'it''s\n  Jane'",
                f"a: |2-  # Jane\n  # {MAIL}\n    more\n# end Jane\nb: >-\n  x y\n\n  z",
                f'a: "{MAIL} \\\n  x\\ \n\n  y" # {MAIL}\n"b c": \'\'',
                "a: 4111111111111111\nb: 1980-02-01\nc: true\nd: null\ne: 5.5\nf: ~\ng:",
                f"a: \U0001f600 é {MAIL}\r\nb:\r\n  - x: y\r\n    z: >\r\n      Jane\r\n", "Jane Miller: x",
                "Just Jane",
            ]:  # fmt: skip
                masked = matter("---", text, policy, fill)
                assert same_shape(yaml.safe_load(text), yaml.safe_load(masked)), masked
                assert MAIL not in masked
                if policy is WORDS and fill == "class_marker":
                    assert "Jane" not in masked


def test_yaml_changes_only_what_is_masked() -> None:
    policy = MaskPolicy(entities=("EMAIL_ADDRESS", "CREDIT_CARD", "PASSWORD"))
    text = (
        'card: "4111\\x201111 1111\\x201111 \\u00e9"\nmail: it\'s jane.roe@acme-corp.com\n  there # a comment\n'
        "login: {password: winter12, other: winter13}\nnumber: 4111111111111111\non: 2024-05-03\n"
    )
    assert matter("---", text.rstrip(), policy) == (
        "card: \"[CREDIT_CARD] \\u00e9\"\nmail: 'it''s [EMAIL_ADDRESS]\n  there' # a comment\n"
        "login: {password: '[PASSWORD]', other: winter13}\nnumber: '[CREDIT_CARD]'\non: 2024-05-03\n"
    )


def test_what_is_no_yaml_is_read_as_text() -> None:
    for text in [f"a: [{MAIL}", f"a: b: {MAIL}", f"%YAML 1.1\n--- {MAIL}", f"a\n...\n{MAIL}"]:
        assert MAIL not in matter("---", text)


def test_what_no_mask_could_stand_for_is_refused_and_not_repeated() -> None:
    for text in [f"a: !!binary {MAIL}", "a: !!int 4111111111111111", f"a: !{MAIL} {{b: c}}", "[" * 21 + "]" * 21]:
        with pytest.raises(InvalidInput, match=r"(?i)front matter") as refused:
            matter("---", text)
        assert "acme" not in str(refused.value)


def test_toml_keeps_its_structure() -> None:
    for fill in list(FILLS):
        text = (
            f'phone = 4915112345678\nborn = 1980-02-01\nat = 1979-05-27 07:32:00 # {MAIL}\n"a.b" = true\n'
            f'[[people."Jane M"]]\nmail = "jane.roe\\u0040acme-corp.com"\nother = \'{MAIL}\'\n'
            f'list = [\n  ["{MAIL}", 1.5],\n  {{k = """\nJane \\\n   {MAIL} \\"x\\" """"}},\n]\n'
            f"lines = '''\n{MAIL} it's\n'''"
        )
        masked = tomllib.loads(matter("+++", text, fill=fill))
        assert same_shape(tomllib.loads(text), masked)
        assert MAIL not in str(masked)
        assert isinstance(masked["born"], str)


def test_toml_changes_only_what_is_masked() -> None:
    policy = MaskPolicy(entities=("CREDIT_CARD", "DATE_OF_BIRTH", "PASSWORD"))
    text = "card = 4111111111111111\nborn = 1980-02-01\non = 2024-05-03\n[login]\npassword = 'winter12' # x"
    assert matter("+++", text, policy) == (
        'card = "[CREDIT_CARD]"\nborn = "[DATE_OF_BIRTH]"\non = 2024-05-03\n[login]\npassword = \'[PASSWORD]\' # x\n'
    )
    assert tomllib.loads(text)["born"] == datetime.date(1980, 2, 1)


def test_what_is_no_toml_is_read_as_text() -> None:
    assert MAIL not in matter("+++", f"a = = {MAIL}")
