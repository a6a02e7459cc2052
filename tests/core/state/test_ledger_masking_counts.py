"""Counts of masking on real servers: what callers name does not fill Redis."""

from core.redis import names
from core.state.masking_counts import FIELDS_MAX, OTHER, MaskingCounts


def test_types_and_models_that_callers_name_take_bounded_space(go, client):
    counts, types = MaskingCounts(client, types={"PERSON"}), 500
    for batch in range(FIELDS_MAX // types + 3):
        finds = {f"TYPE_{batch}_{number}": 1 for number in range(types)} | {"PERSON": 1}
        counts.note("acme", "key", f"model-{batch}", requests=1, finds=finds)
        go(counts.write())
    day = go(client.now_ms()) // 86_400_000
    assert go(client.call("HLEN", names.masking_counts_key("acme", day))) <= FIELDS_MAX + 4
    _, rows = go(counts.read("acme", 1))
    finds = sum((row.finds for row in rows), start=type(rows[0].finds)())
    assert sum(row.requests for row in rows) == finds["PERSON"] == FIELDS_MAX // types + 3
    assert finds[OTHER] == 3 * types
