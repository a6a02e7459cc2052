"""pandas and Polars: columns of private vectors and of sanitised texts."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from suite_kit import LETTER, REVIEWS, shown, spent

from privacy_gateway_client import BudgetExhausted, Gateway, InvalidRequest, Rejected, Release
from privacy_gateway_client.integrations import pandas as private_pandas
from privacy_gateway_client.integrations import polars as private_polars


def test_a_column_of_pandas_becomes_a_table_of_vectors(gateway: Gateway) -> None:
    texts = pd.Series([REVIEWS[0], None, REVIEWS[1]], index=["a", "b", "a"], name="review")
    table = private_pandas.embed(texts, gateway, epsilon=3)
    assert table.shape == (3, 384)
    assert list(table.index) == ["a", "b", "a"]
    assert table.isna().all(axis=1).tolist() == [False, True, False]
    assert set(table.dtypes) == {np.dtype("float32")}
    [facts] = table.attrs["privacy"]
    assert (facts["epsilon"], facts["unit"], facts["inputs"]) == (3, "sentence", 2)
    assert spent(gateway) == 6


def test_a_column_of_polars_becomes_a_column_of_vectors(gateway: Gateway) -> None:
    releases: list[Release] = []
    texts = pl.Series("review", [REVIEWS[0], None, REVIEWS[1]])
    vectors = private_polars.embed(texts, gateway, epsilon=3, endpoint="vector", on_release=releases.append)
    assert vectors.dtype == pl.Array(pl.Float32, 384)
    assert (vectors.name, vectors.is_null().to_list()) == ("review", [False, True, False])
    assert vectors.drop_nulls().to_numpy().shape == (2, 384)
    assert [(one.privacy.epsilon, len(one.inputs)) for one in releases] == [(3, 2)]
    assert spent(gateway) == 6


def test_sanitised_columns_keep_index_name_and_gaps(gateway: Gateway) -> None:
    values = [LETTER, None, " ", "Nothing to hide."]
    column = private_pandas.sanitize(pd.Series(values, index=[4, 3, 2, 1], name="letter"), gateway)
    assert (list(column.index), column.name) == ([4, 3, 2, 1], "letter")
    assert column.isna().tolist() == [False, True, False, False]
    assert column.tolist()[2:] == [" ", "Nothing to hide."]
    assert column.attrs["privacy"][0]["guarantee"] == "none"
    other = private_polars.sanitize(pl.Series("letter", values), gateway, fill={"mode": "surrogate"})
    assert (other.name, other.dtype, other.to_list()[1:]) == ("letter", pl.String, [None, " ", "Nothing to hide."])
    assert not shown(f"{column[4]} {other[0]}")
    assert spent(gateway) == 0


def test_a_categorical_column_is_sanitised(gateway: Gateway) -> None:
    column = private_pandas.sanitize(pd.Series([LETTER, LETTER, None], dtype="category"), gateway)
    assert column.isna().tolist() == [False, False, True]
    assert "card" in column[0]
    assert not shown(column[0])


@pytest.mark.parametrize(("library", "series"), [(private_pandas, pd.Series), (private_polars, pl.Series)])
def test_wrong_columns_and_an_exhausted_budget_charge_nothing(library: Any, series: Any, poor_gateway: Gateway) -> None:
    with pytest.raises(TypeError, match="no text"):
        library.embed(series([1, 2]), poor_gateway, epsilon=1)
    with pytest.raises((Rejected, InvalidRequest)):
        library.embed(series([" "]), poor_gateway, epsilon=1)
    with pytest.raises(BudgetExhausted):
        library.embed(series(REVIEWS), poor_gateway, epsilon=3)
    with pytest.raises(TypeError, match="one column"):
        library.embed("hello", poor_gateway, epsilon=1)
    with pytest.raises(InvalidRequest, match=r"documents\.2: "):
        library.embed(series([REVIEWS[0], None, " "]), poor_gateway, epsilon=1)
    assert spent(poor_gateway) == 0


def test_a_table_is_no_column(gateway: Gateway) -> None:
    for call in (private_pandas.embed, private_pandas.sanitize):
        with pytest.raises(TypeError, match="DataFrame"):
            call(pd.DataFrame({"text": REVIEWS}), gateway, **({"epsilon": 1} if call is private_pandas.embed else {}))
    assert spent(gateway) == 0


def test_columns_without_texts_cost_nothing(gateway: Gateway) -> None:
    assert private_pandas.embed(pd.Series([None, None], dtype=str), gateway, epsilon=1).shape == (2, 0)
    assert private_pandas.sanitize(pd.Series([], dtype=str), gateway).empty
    assert private_polars.embed(pl.Series("a", [None, None], dtype=pl.String), gateway, epsilon=1).null_count() == 2
    assert private_polars.sanitize(pl.Series("a", [], dtype=pl.String), gateway).is_empty()


def test_the_examples_of_the_guide_run(run_example: Any) -> None:
    assert run_example("pandas")["vectors"].shape == (2, 384)
    assert run_example("Polars")["vectors"].dtype == pl.Array(pl.Float32, 384)
