"""The idempotency keys of attempts: who finds one, for how long, and what Redis holds of it."""

from ledger_kit import MASTER_KEY

from core.ledger.reuse import ATTEMPT_RETENTION_MS, Attempts
from core.redis import names

REQUEST = {"tenant": "acme", "key_id": "0" * 16, "route": "/v1/embeddings", "body": b"canary-text"}


def test_an_attempt_is_found_by_the_same_request_alone(go, client) -> None:
    attempts = Attempts(client, MASTER_KEY)
    tag = attempts.tag(**REQUEST)
    assert go(attempts.find("acme", tag)) is None
    for key in ("first", "second"):
        go(attempts.keep("acme", tag, key))
        assert go(attempts.find("acme", tag)) == key
    for other in ({"key_id": "1" * 16}, {"route": "/v1/messages"}, {"body": b"canary-text "}, {"tenant": "other"}):
        assert go(attempts.find("acme", attempts.tag(**REQUEST | other))) is None
    assert go(attempts.find("other", tag)) is None


def test_redis_holds_no_text_and_no_key_and_forgets_both(go, client, admin) -> None:
    attempts = Attempts(client, MASTER_KEY)
    tag = attempts.tag(**REQUEST)
    go(attempts.keep("acme", tag, "canary-key"))
    [name] = go(admin.call("KEYS", "*"))
    value = go(admin.call("GET", name))
    assert b"canary" not in name + value
    assert 0 < go(admin.call("PTTL", name)) <= ATTEMPT_RETENTION_MS
    go(admin.call("SET", names.attempt_key("acme", tag), b"x" * 40))
    assert go(attempts.find("acme", tag)) is None
