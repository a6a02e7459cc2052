"""Structured documents: values are masked, and everything else stays as it was, character for character."""

import csv
import email
import email.policy
import io
import itertools
import json
from base64 import b64encode
from typing import Any

import pytest
from form_kit import LEAVES, Writer, round_trip_fault
from table_kit import texts

from core.errors import InvalidInput
from core.text.formats.builder import (
    Action,
    CsvChoices,
    EmailChoices,
    FormatLimits,
    FormatOptions,
    HtmlChoices,
    JsonChoices,
    parse,
)
from core.text.formats.json_form import Matcher, parse_path
from core.text.mask_words import AllowLists
from core.text.policy import FILLS, MaskPolicy, Sanitised
from core.text.sanitize import fill_masks, inspect
from service.sanitize.formats import FormatBody as RequestOptions

LISTS = AllowLists()
PATTERNS = MaskPolicy(entities=("EMAIL_ADDRESS", "CREDIT_CARD", "IBAN_CODE", "PHONE_NUMBER", "IP_ADDRESS"))
NOTHING = MaskPolicy(entities=("CRYPTO",))
DEFAULTS, LIMITS = FormatOptions(), FormatLimits()
MAIL = "jane.roe@acme-corp.com"


def sanitised(
    format_name: str,
    text: str,
    options: FormatOptions = DEFAULTS,
    *,
    policy: MaskPolicy = PATTERNS,
    fill: str = "class_marker",
    limits: FormatLimits = LIMITS,
) -> Sanitised:
    form = parse(format_name, text, options, limits)
    return fill_masks(inspect(form.view, policy, LISTS, form=form), policy, fill, LISTS)


def out(format_name: str, text: str, options: FormatOptions = DEFAULTS, **chosen: Any) -> str:
    return sanitised(format_name, text, options, **chosen).text


def rules(*rows: tuple[str, Action]) -> FormatOptions:
    return FormatOptions(json=JsonChoices(rules=rows))


def test_generated_documents_parse_as_before_show_no_planted_value_and_have_its_spans() -> None:
    for fill in list(FILLS):
        for format_name in LEAVES:
            writer = Writer(seed=3)
            for _ in range(12):
                document = writer.document(format_name)
                options = RequestOptions.model_validate(document.options).resolved()
                result = sanitised(format_name, document.text, options, fill=fill)
                assert round_trip_fault(document, result.text, marked=fill != "surrogate") is None, document.text
                places = [result.text[span.start : span.end] for span in result.spans]
                assert all(places)
                if fill == "class_marker" and format_name in ("json", "csv"):
                    assert all(place == f"[{span.type}]" for place, span in zip(places, result.spans, strict=True))
                if format_name != "email":  # without a find it stays as it is
                    assert out(format_name, document.text, options, policy=NOTHING) == document.text


class TestJson:
    def test_strings_and_numbers_change_and_all_other_characters_stay(self) -> None:
        source = (
            f'\ufeff{{ "mail":"{MAIL} \\u00e9\\/ \\ud83d\\ude00", "mail" : "\\udead {MAIL}",\r\n'
            f'"n":[1.0,1e400,12345678901234567890,-0], "card": 4111111111111111, "{MAIL}": null }}\n'
        )
        assert out("json", source) == (
            '\ufeff{ "mail":"[EMAIL_ADDRESS] \\u00e9\\/ \\ud83d\\ude00", "mail" : "\\udead [EMAIL_ADDRESS]",\r\n'
            f'"n":[1.0,1e400,12345678901234567890,-0], "card": "[CREDIT_CARD]", "{MAIL}": null }}\n'
        )

    def test_a_number_becomes_a_number_where_the_surrogate_is_one(self) -> None:
        card = json.loads(out("json", '{"card": 4111111111111111}', fill="surrogate"))["card"]
        assert isinstance(card, int)
        assert card != 4111111111111111

    def test_a_surrogate_is_the_same_in_the_whole_document_and_escaped(self) -> None:
        a, b, c = json.loads(out("json", json.dumps([MAIL, {"x": f'"{MAIL}"\n'}, 5]), fill="surrogate"))
        assert b == {"x": f'"{a}"\n'}
        assert c == 5

    def test_an_escaped_value_is_found(self) -> None:
        assert out("json", r'["jane.roe\u0040acme-corp.com x"]') == '["[EMAIL_ADDRESS] x"]'
        assert out("json", '["4111 11\u200b11 1111 1111"]') == '["[CREDIT_CARD]"]'

    def test_finds_do_not_cross_values(self) -> None:
        source = '["4111 1111", "1111 1111", 41111111, 11111111]'
        assert out("json", source) == source

    def test_rules_mask_keep_and_drop_values_and_what_is_inside(self) -> None:
        source = json.dumps(
            {"name": "Bo", "id": MAIL, "a": {"name": ["Al", 7, True], "id": MAIL}, "secret": {"x": [1, {"y": MAIL}]}}
        )
        options = rules(("$.a.name", Action(type="PERSON")), ("$.id", Action("keep")), ("secret", Action("drop")))
        assert json.loads(out("json", source, options, policy=NOTHING)) == {
            "name": "Bo", "id": MAIL, "a": {"name": ["[PERSON]", "[PERSON]", True], "id": MAIL}, "secret": None,
        }  # fmt: skip
        assert json.loads(out("json", source, options))["a"]["id"] == "[EMAIL_ADDRESS]"

    def test_lines_are_values_of_their_own(self) -> None:
        source = f'{{"a": "{MAIL}"}}\r\n\r\n["{MAIL}"]\n'
        options = FormatOptions(json=JsonChoices((("$.a", Action("keep")),), lines=True))
        assert out("json", source, options) == f'{{"a": "{MAIL}"}}\r\n\r\n["[EMAIL_ADDRESS]"]\n'
        with pytest.raises(InvalidInput):
            out("json", source)

    def test_what_is_no_json_is_refused_and_not_repeated(self) -> None:
        for source in [
            *("", "{", "[1,]", '{"a":1,}', "[1 2]", '{"a" 1}', "{1:2}", "'a'", "NaN", "01", "[1]]", '"\\x"', '"\\ud8"'),
            *('"a\nb"', "tru", "[\x00]", '{"a":}', "+1", "1.", '"open', "[1]\n[2]"),
        ]:
            with pytest.raises(InvalidInput, match=r"not valid JSON, at line \d+, column \d+"):
                out("json", source)

    def test_limits(self) -> None:
        with pytest.raises(InvalidInput, match="5 deep"):
            out("json", "[" * 100_000, limits=FormatLimits(depth_max=5))
        with pytest.raises(InvalidInput, match="3 values"):
            out("json", '["a","a","a","a"]', limits=FormatLimits(values_max=3))

    def test_paths(self) -> None:
        for path, key_paths in [
            ("email", ["email", "a/email", "a/0/email"]), ("$.email", ["email"]),
            ("*.email", ["a/email", "a/0/email"]), ("$.a[0].email", ["a/0/email"]),
            ("$.**.email", ["email", "a/email", "a/0/email"]), ("**.a.*", ["a/email", "a/0"]), ('$["a.b"]', ["a.b"]),
            ("$", [""]),
        ]:  # fmt: skip
            found = []
            for key_path in ["", "email", "a/email", "a/0", "a/0/email", "a.b", "b"]:
                matcher = Matcher([path])
                state = matcher.start
                for key in filter(None, key_path.split("/")):
                    state = matcher.step(state, key)
                if matcher.rule(state) is not None:
                    found.append(key_path)
            assert found == key_paths

    def test_what_is_no_path_is_refused(self) -> None:
        for path in ["", "a..b", "a b.", "$.", "[", "a[", "a[x]", '["a', ".".join("a" * 40)]:
            with pytest.raises(InvalidInput):
                parse_path(path)


class TestCsv:
    def test_quotes_and_line_ends_stay(self) -> None:
        source = f'\ufeffname;note\r\n"a ""b"" {MAIL}";x\r\n;"{MAIL}\r\n2"\r\n'
        assert out("csv", source) == '\ufeffname;note\r\n"a ""b"" [EMAIL_ADDRESS]";x\r\n;"[EMAIL_ADDRESS]\r\n2"\r\n'

    def test_a_replacement_with_a_delimiter_is_quoted(self) -> None:
        options = FormatOptions(csv=CsvChoices(columns=((1, Action(type="LOCATION")),)))
        for _ in range(20):
            rows = list(csv.reader(io.StringIO(out("csv", "a,12 Main St\nb,5' 3\" x\n", options, fill="surrogate"))))
            assert [len(row) for row in rows] == [2, 2]

    def test_columns_by_name_and_number(self) -> None:
        columns = (("name", Action(type="PERSON")), (1, Action("keep")), (2, Action("drop")))
        source = f'name,mail,x,other\n"Bo, B",{MAIL},"1",{MAIL}\n'
        assert out("csv", source, FormatOptions(csv=CsvChoices(columns=columns))) == (
            f'name,mail,x,other\n"[PERSON]",{MAIL},"",[EMAIL_ADDRESS]\n'
        )
        with pytest.raises(InvalidInput):
            out("csv", source, FormatOptions(csv=CsvChoices(columns=(("nobody", Action("keep")),))))

    def test_a_number_beyond_the_last_column_is_refused(self) -> None:
        def column(number: int) -> FormatOptions:
            return FormatOptions(csv=CsvChoices(columns=((number, Action("drop")),)))

        assert out("csv", "a,b\nc,d,e\n", column(2)) == 'a,b\nc,d,""\n'
        with pytest.raises(InvalidInput) as refused:
            out("csv", "a,b\nc,d,e\n", column(3))
        assert refused.value.field == "format_options.csv.columns"

    def test_the_header_is_kept_where_the_option_says_so(self) -> None:
        assert MAIL not in out("csv", f"{MAIL},a\nb,c\n")
        kept = FormatOptions(csv=CsvChoices(header="yes"))
        assert out("csv", f"{MAIL},a\nb,{MAIL}\n", kept) == f"{MAIL},a\nb,[EMAIL_ADDRESS]\n"

    def test_open_quotes_are_refused(self) -> None:
        for source in ['a,"b', 'a,"b"c', '"a""']:
            with pytest.raises(InvalidInput, match="not valid CSV, at line 1"):
                out("csv", source, FormatOptions(csv=CsvChoices(delimiter="comma")))


class TestLog:
    def test_the_structure_of_lines_stays(self) -> None:
        source = (
            f'2024-05-03T12:00:00Z INFO [main] user={MAIL} msg="to {MAIL} \\"x\\"" n=5\r\n'
            f'[2024-05-03 12:00:00,123] ERROR {{"mail": "{MAIL}", "n": [4111111111111111]}}\n'
            f'192.168.17.4 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.1" 200\n'
            f'{{"open": "{MAIL}"\n'
        )
        masked = source.replace(MAIL, "[EMAIL_ADDRESS]").replace("192.168.17.4", "[IP_ADDRESS]")
        assert out("log", source) == masked.replace("4111111111111111", '"[CREDIT_CARD]"')

    def test_no_find_crosses_a_line(self) -> None:
        source = "card 4111 1111\n1111 1111\r4111 1111\u20281111 1111\n"
        assert out("log", source) == source

    def test_words_of_levels_and_time_stamps_stay_even_where_all_is_masked(self) -> None:
        masked = out("log", "2024-05-03 12:00:00 WARN a b=c, 5", policy=MaskPolicy(techniques=("all",)))
        assert masked == "2024-05-03 12:00:00 WARN [WORD] b=[WORD], [NUMBER]"


class TestHtml:
    def test_texts_and_attributes_change_and_markup_stays(self) -> None:
        source = (
            f"<!DOCTYPE html><P CLASS=x TITLE='{MAIL}'>to &lt;{MAIL}&gt; &amp &nbsp;<br/>\n"
            f'<a href=mailto:{MAIL} >jane.roe&#64;acme-corp.com</a><!-- {MAIL} --><script>a="{MAIL}"<b</script>'
            f"<textarea>{MAIL}</textarea><![CDATA[ {MAIL} ]]> 1 < 2 </p >"
        )
        assert out("html", source) == (
            "<!DOCTYPE html><P CLASS=x TITLE='[EMAIL_ADDRESS]'>to &lt;[EMAIL_ADDRESS]&gt; &amp &nbsp;<br/>\n"
            '<a href="mailto:[EMAIL_ADDRESS]" >[EMAIL_ADDRESS]</a><!-- [EMAIL_ADDRESS] -->'
            '<script>a="[EMAIL_ADDRESS]"<b</script>'
            "<textarea>[EMAIL_ADDRESS]</textarea><![CDATA[ [EMAIL_ADDRESS] ]]> 1 < 2 </p >"
        )

    def test_a_number_split_by_tags_is_found_and_tags_stay(self) -> None:
        assert out("html", "<b>4111</b> 1111 <i>1111 1111</i>") == (
            "<b>[CREDIT_CARD]</b> [CREDIT_CARD] <i>[CREDIT_CARD]</i>"
        )

    def test_scripts_and_comments_are_dropped_or_refused(self) -> None:
        source = "<p>a</p><script>x()</script><style>p{}</style><!-- note -->"
        options = FormatOptions(html=HtmlChoices(scripts="drop", comments="drop"))
        assert out("html", source, options) == "<p>a</p><script></script><style></style><!---->"
        for refused in (HtmlChoices(scripts="refuse"), HtmlChoices(comments="refuse")):
            with pytest.raises(InvalidInput):
                out("html", source, FormatOptions(html=refused))


class TestMarkdown:
    def test_marks_stay_and_values_in_all_places_change(self) -> None:
        source = (
            f"---\nauthor: {MAIL}\n---\n# {MAIL}\n\n{MAIL}: a ({MAIL}) `{MAIL}` <{MAIL}> **{MAIL}**\n\n"
            f'[{MAIL}](mailto:{MAIL} "{MAIL}") ![{MAIL}][r] {MAIL}(x)\n\n[r]: https://x.example/{MAIL}\n\n'
            f"| a | b |\n|---|---|\n| {MAIL} | \\| {MAIL} |\n\n```sh\nmail {MAIL}\n```\n<p title='{MAIL}'>{MAIL}</p>\n"
        )
        marker = "[EMAIL_ADDRESS]"
        assert out("markdown", source) == (
            f"---\nauthor: '{marker}'\n---\n# {marker}\n\n\\[EMAIL_ADDRESS\\]: a ({marker}) `{marker}` "
            f"<mailto:%5BEMAIL_ADDRESS%5D> **{marker}**\n\n"
            f'[{marker}](mailto:%5BEMAIL_ADDRESS%5D "{marker}") ![{marker}][r] \\[EMAIL_ADDRESS\\](x)\n\n'
            f"[r]: https://x.example/%5BEMAIL_ADDRESS%5D\n\n"
            f"| a | b |\n|---|---|\n| {marker} | \\| {marker} |\n\n```sh\nmail {marker}\n```\n"
            f"<p title='{marker}'>{marker}</p>\n"
        )


class TestEmail:
    SOURCE = (
        "Received: from [192.168.17.4] by mx\r\n for <{mail}>; Fri, 3 May 2024 12:00:00 +0000\r\n"
        'From: =?utf-8?q?J=C3=B6rg?= Roe <{mail}>\r\nTo: "Roe, Jane" <{mail}>,\r\n bob@example.net (Bob)\r\n'
        "Cc: Jane Roe jane@example.net\r\nSubject: Call =?utf-8?b?{word}?=\r\nMIME-Version: 1.0\r\n"
        'Content-Type: multipart/mixed; boundary="b"\r\n\r\n'
        "--b\r\nContent-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n"
        "Gr=FC=DFe, write to jane.roe=\r\n@acme-corp.com\r\n> and {mail}\r\n--b\r\n"
        "Content-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n{html}\r\n--b{rest}--\r\n"
    )
    ATTACHMENT = (
        '\r\nContent-Type: image/png; name="{mail}.png"\r\nContent-Transfer-Encoding: base64\r\n\r\nAAAA\r\n--b'
    )

    def source(self, rest: str = "") -> str:
        html = b64encode(f"<p title='{MAIL}'>Grüße</p>".encode()).decode()
        word = b64encode(f"Jörg {MAIL}".encode()).decode()
        return self.SOURCE.format(mail=MAIL, word=word, html=html, rest=rest)

    def test_headers_and_parts_change_and_the_structure_stays(self) -> None:
        masked = email.message_from_string(out("email", self.source()), policy=email.policy.default)
        assert masked["received"] == "from [[IP_ADDRESS]] by mx for <[EMAIL_ADDRESS]>; Fri, 3 May 2024 12:00:00 +0000"
        assert masked["subject"] == "Call Jörg [EMAIL_ADDRESS]"
        assert str(masked["to"]) == '"[PERSON]" <EMAIL_ADDRESS@masked.invalid>, EMAIL_ADDRESS@masked.invalid'
        for header in ("from", "to", "cc"):
            assert not any(name in str(masked[header]) for name in ("Jane", "Jörg", "Roe", "Bob", "@acme", "@example"))
        plain, html = masked.iter_parts()
        assert plain.get_content().splitlines() == ["Grüße, write to [EMAIL_ADDRESS]", "> and [EMAIL_ADDRESS]"]
        assert plain["content-transfer-encoding"] == "quoted-printable"
        assert html.get_content() == "<p title='[EMAIL_ADDRESS]'>Grüße</p>"
        assert MAIL not in str(masked)

    def test_an_attachment_is_refused_dropped_or_passed(self) -> None:
        source = self.source(self.ATTACHMENT.format(mail=MAIL))
        with pytest.raises(InvalidInput, match="attachment"):
            out("email", source)
        dropped = out("email", source, FormatOptions(email=EmailChoices("drop")))
        assert "[ATTACHMENT]" in dropped
        assert "AAAA" not in dropped
        passed = out("email", source, FormatOptions(email=EmailChoices("pass")))
        assert "AAAA" in passed
        assert MAIL not in dropped + passed

    def test_a_message_that_is_no_text_itself_is_refused(self) -> None:
        for attachments in ["refuse", "drop"]:
            with pytest.raises(InvalidInput, match="The e-mail itself") as refused:
                out("email", "Content-Type: application/pdf\n\nAAAA", FormatOptions(email=EmailChoices(attachments)))
            assert "attachments" not in refused.value.detail

    def test_what_cannot_be_read_is_refused(self) -> None:
        for source in texts(r"""
            no header\n\nbody || Content-Type: multipart/mixed\n\nbody
            Content-Type: multipart/mixed; boundary=b\n\n--b\n\nopen || Content-Transfer-Encoding: base64\n\n!!!
            Content-Type: text/plain; charset=nonsense\nContent-Transfer-Encoding: base64\n\nAAAA
            Content-Transfer-Encoding: x-uuencode\n\nbegin 644 a || Subject: =?utf-8?b?/w==?=\n\nx
            Content-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\nAAAA
        """):
            with pytest.raises(InvalidInput):
                out("email", source)

    def test_an_email_inside_an_email_is_read(self) -> None:
        source = f"Subject: a\nContent-Type: message/rfc822\n\nSubject: {MAIL}\n\n{MAIL}\n"
        assert out("email", source) == source.replace(MAIL, "[EMAIL_ADDRESS]")


def test_values_in_broken_markup_are_found() -> None:
    for format_name, starts in {
        "html": [
            *("<p title='", '<a href="x>', "<!-- ", "<script>", "<p ", "</ ", "<", "Jane <", "<?php ", "<![CDATA["),
            *("<b>jane.roe@</b><i>acme-corp.com ", "<p a=", "<p a='b'c='", "<title>", "<style>/* ", "<x y="),
            *("<!doctype ", "<p\x00 a=", "<plaintext><b>", "&#0;", "<p><<"),
        ],
        "markdown": ["`", "```\n", "[a](", "<", "<b ", "\\<"],
    }.items():
        for start, fill in itertools.product(starts, FILLS):
            for end in ("", ">", "/>", "\\>"):
                assert MAIL not in out(format_name, f"{start}{MAIL}{end}", fill=fill)


def test_the_key_or_the_header_of_a_table_is_the_context_of_its_values_alone() -> None:
    for format_name, source in [
        ("json", '{"usPassport_no": "912803456", "amount": "912803457"}'),
        ("html", "<table><tr><th>Us passport<th>Sum</tr><tr><td>912803456<td>912803457</tr></table>"),
        ("markdown", "| us passport | sum |\n| --- | --- |\n| 912803456 | 912803457 |\n"),
        ("csv", "us passport,amount\n912803456,912803457\n"),
    ]:
        masked = out(format_name, source, policy=MaskPolicy(entities=("US_PASSPORT", "EMAIL_ADDRESS")))
        assert masked == source.replace("912803456", "[US_PASSPORT]")
