"""`POST /embed/sentdp` by `document_selection`: the answer says that the whole document is protected, and tells nothing
that the guarantee hides."""

import numpy as np
from gateway_kit import DOCUMENT, Tenant

MECHANISM = "document_selection"


def test_an_answer_names_the_document_as_its_unit_and_hides_the_number_of_sentences(tenant: Tenant) -> None:
    answer = tenant.embed([{"id": "a", "text": DOCUMENT}, {"text": "Alone."}], epsilon=2.5, mechanism=MECHANISM)

    assert answer.status_code == 200, answer.text
    body = answer.json()
    common = {"index", "embedding", "space"}
    assert [set(row) for row in body["data"]] == [common | {"id"}, common]
    assert all(np.isfinite(row["embedding"]).all() for row in body["data"])
    assert body["usage"] == {"documents": 2}
    release_id = body["privacy"].pop("release_id")
    assert release_id
    assert body["privacy"] == {
        "guarantee": "pure-dp", "unit": "document", "units": ["document", "sentence", "token"],
        "adjacency": "replace-one document, of any number of sentences", "public": [], "epsilon": 2.5, "delta": 0.0,
        "mechanism": MECHANISM,
    }  # fmt: skip
