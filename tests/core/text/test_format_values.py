"""Values of logs and HTML are masked by their labels, and the finds of a document are in order of position."""

from core.text.formats.builder import FormatLimits, FormatOptions, parse
from core.text.mask_words import AllowLists
from core.text.policy import MaskPolicy
from core.text.sanitize import fill_masks, finds_only, inspect

LISTS = AllowLists()
LABELLED = MaskPolicy(entities=("PASSWORD", "SECRET", "USERNAME", "US_PASSPORT", "PHONE_NUMBER"))
MAIL = "jane.roe@acme-corp.com"


def out(format_name: str, text: str) -> str:
    form = parse(format_name, text, FormatOptions(), FormatLimits())
    return fill_masks(inspect(form.view, LABELLED, LISTS, form=form), LABELLED, "class_marker", LISTS).text


def test_the_key_in_a_log_is_the_label_of_its_value_alone() -> None:
    for source, masked in [
        ("session=kXz81LmQ0pRt77Ab ok", "session=[SECRET] ok"),
        ('password="winter" x=1', 'password="[PASSWORD]" x=1'),
        ("password='winter' x=1", "password='[PASSWORD]' x=1"),
        ("user=kelly password=winter pin=4829", "user=[USERNAME] password=[PASSWORD] pin=[PASSWORD]"),
        ("usPassportNo=912803456 amount=912803457", "usPassportNo=[US_PASSPORT] amount=912803457"),
        ("rows=4829 mode=winter", "rows=4829 mode=winter"),
    ]:
        assert out("log", source) == masked


def test_html_labels_the_values_of_fields_and_descriptions() -> None:
    for source, masked in [
        (
            "<dl><dt>Password</dt><dd>winter12</dd><dt>City<dd>winter13</dl>",
            "<dl><dt>Password</dt><dd>[PASSWORD]</dd><dt>City<dd>winter13</dl>",
        ),
        ('<label>PIN</label> <input value="4829">', '<label>PIN</label> <input value="[PASSWORD]">'),
        (
            '<label>PIN:</label><input type=hidden value=4821><input name="f_1" value=4829><input value=4823>',
            '<label>PIN:</label><input type=hidden value=4821><input name="f_1" value="[PASSWORD]"><input value=4823>',
        ),
        ('<label>Password <input value="winter12"></label>', '<label>Password <input value="[PASSWORD]"></label>'),
        (
            '<label>Enter it here:</label><input name="password" value="winter12">',
            '<label>Enter it here:</label><input name="password" value="[PASSWORD]">',
        ),
        ('<input type="password" value="winter12">', '<input type="password" value="[PASSWORD]">'),
        (
            "<label>Password</label><textarea>winter12</textarea>",
            "<label>Password</label><textarea>[PASSWORD]</textarea>",
        ),
        ('<label>Rows</label> <input value="4829">', '<label>Rows</label> <input value="4829">'),
    ]:
        assert out("html", source) == masked


def test_finds_are_in_order_of_position() -> None:
    for format_name, source in [
        (
            "html",
            f'<p title="{MAIL}">192.168.17.4</p><img alt="123-45-6789"> 12 2024 <b title="4111111111111112">x</b>',
        ),
        ("markdown", f"[192.168.17.4](mailto:{MAIL}) 4111111111111112 [4111111111111111](http://10.1.2.3/) 12/2024"),
    ]:
        policy = MaskPolicy()
        form = parse(format_name, source, FormatOptions(), FormatLimits())
        found = inspect(form.view, policy, LISTS, form=form, explain=100)
        dry, released = finds_only(found), fill_masks(found, policy, "class_marker", LISTS)
        assert len(dry.origins) > 1
        starts = [origin.start for origin in dry.origins]
        assert starts == sorted(starts)
        assert list(dry.origins) == list(released.origins or ())
        assert [span.type for span in dry.spans] == [span.type for span in released.spans]
        places = [find[:2] for find in dry.suppressed.finds]
        assert len(places) > 1
        assert places == sorted(places)
