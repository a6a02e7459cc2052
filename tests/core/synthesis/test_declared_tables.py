"""Embeddings are a table of numeric columns, written as lists."""

import pytest
from synthesis_kit import SHOP

from core.errors import BadRow, InvalidInput
from core.synthesis.declared import declared_table

LABEL = SHOP["label"]
EMBEDDING = {"dimension": 3, "minimum": -1, "maximum": 1}


def test_a_row_there_and_back() -> None:
    declared = declared_table({"embedding": EMBEDDING, "label": LABEL})
    assert declared.schema.names == ("embedding.0", "embedding.1", "embedding.2", "buys")
    written = {"embedding": [0.5, 0, 1], "buys": "yes"}
    flat = declared.row(written, number=0)
    assert flat == {"embedding.0": 0.5, "embedding.1": 0, "embedding.2": 1, "buys": "yes"}
    assert declared.written(flat) == written
    table = declared_table(SHOP)
    assert table.row({"age": 1}, number=0) == table.written({"age": 1}) == {"age": 1}


def test_what_is_no_embedding_is_refused() -> None:
    for row in [{}, [], None, {"embedding": [1, 2]}, {"embedding": "abc"}, {"embedding": [1] * 4}]:
        with pytest.raises(BadRow) as refused:
            declared_table({"embedding": EMBEDDING, "label": LABEL}).row(row, number=7)
        assert refused.value.row == 7


def test_a_declaration_that_cannot_be_used() -> None:
    for declared, field in [
        ({"embedding": {**EMBEDDING, "dimension": 0}}, "schema.embedding.dimension"),
        ({"embedding": {**EMBEDDING, "dimension": True}}, "schema.embedding.dimension"),
        ({"embedding": {**EMBEDDING, "dimension": 1_025}}, "schema.embedding.dimension"),
        ({"embedding": {"dimension": 3, "maximum": 1}}, "schema.embedding.minimum"),
        ({"embedding": {**EMBEDDING, "walrus": 1}}, "schema.embedding"),
        ({"embedding": [], "label": LABEL}, "schema.embedding"),
        ({"embedding": EMBEDDING, "columns": []}, "schema"),
        ({"embedding": EMBEDDING, "label": {**LABEL, "name": "embedding"}}, "schema.label.name"),
        ({"embedding": EMBEDDING, "label": {**LABEL, "name": "embedding.1"}}, "schema.columns"),
        ({"embedding": EMBEDDING, "label": {**LABEL, "categories": ["one"]}}, "schema.label.categories"),
        (None, "schema"),
    ]:
        with pytest.raises(InvalidInput) as refused:
            declared_table(declared)
        assert refused.value.field == field
