"""SECRET: what is a key, a token or a credential, and what only looks like one. Keys are put together at run time."""

import random
import string

from table_kit import texts

from core.text.policy import MaskPolicy
from core.text.sanitize import sanitize

DRAW = random.Random(20)
RANDOM = "".join(DRAW.choices(string.ascii_letters + string.digits, k=40))
HEX = "".join(DRAW.choices("0123456789abcdef", k=40))
DASHES = "-" * 5
BODY = "\n".join("".join(DRAW.choices(string.ascii_letters + string.digits + "+/", k=64)) for _ in range(50))
PEM = f"{DASHES}BEGIN RSA PRIVATE KEY{DASHES}\n{BODY}\n{DASHES}END RSA PRIVATE KEY{DASHES}"


def masked(text: str, *entities: str) -> str:
    return sanitize(text, MaskPolicy(entities=entities or ("SECRET",)), "class_marker").text


def test_a_published_format_needs_no_context() -> None:
    for key in [
        "AK" + "IA" + "QW3RTYUIOP5ASDF7", "gh" + "p_" + RANDOM[:36], "gl" + "pat-" + RANDOM[:20],
        "xo" + "xb-123456789012-1234567890123-" + RANDOM[:24], "sk" + "_live_" + RANDOM[:24],
        "SG" + "." + RANDOM[:22] + "." + RANDOM[:40] + "abc", "hf" + "_" + RANDOM[:34], "sk" + "-ant-api03-" + RANDOM,
        "eyJ" + "hbGciOiJIUzI1NiJ9.eyJ" + "zdWIiOiIxMjM0NTY3ODkwIn0." + RANDOM, PEM,
    ]:  # fmt: skip
        for frame in ["see {} there", '{{"v": "{}"}}', "x={}\n"]:
            assert masked(frame.format(key)) == frame.format("[SECRET]")


def test_a_random_value_is_a_secret_where_its_name_says_so() -> None:
    for frame in texts("""
        api_key = "{}" || export TOKEN={} || Authorization: Bearer {} || {{"clientSecret": "{}"}} || secret_key: '{}'
        --token {} --verbose || <apiKey>{}</apiKey> || curl -H 'X-Api-Key: {}' https://x || the API key is {} for now
    """):
        for value in [RANDOM, HEX, RANDOM[:20]]:
            assert masked(frame.format(value)) == frame.format("[SECRET]")


def test_the_credentials_of_a_url_are_masked_and_not_its_host() -> None:
    url = "postgres://app:" + "Qw9-xLpz" + "@db.acme.example/shop"
    assert masked(url) == "postgres://[SECRET]@db.acme.example/shop"
    assert masked(url.replace("postgres", "https"), "SECRET", "URL") == "[URL]"


def test_checksums_placeholders_and_expressions_are_no_secrets() -> None:
    for text in [
        f"commit {HEX}", f"sha256:{HEX} and id 123e4567-e89b-12d3-a456-426614174000", "api_key = <your-api-key>",
        "api_key = xxxxxxxxxxxxxxxx", "api_key = ${API_KEY}", 'api_key = os.environ["API_KEY"]', "token = None",
        "secret: str", "token = tokens[0]", "token_type: bearer", "access_token=self.access_token_2",
        "class=sk-fading-circle-large-primary-button", "https://<user>:<password>@host/",
    ]:  # fmt: skip
        assert masked(text, "SECRET", "PASSWORD") == text


def test_a_private_key_is_masked_whole_where_windows_of_a_long_text_cut_it() -> None:
    words = "all was well in the old town and nobody wrote "
    for lead in range(15_000, 16_500, 450):
        text = (words * 400)[:lead] + "\n" + PEM + "\n" + words
        result = masked(text)
        assert not any(line in result for line in BODY.split("\n"))
        assert result.startswith((words * 400)[:lead])
        assert result.endswith(words)
