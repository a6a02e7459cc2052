"""scikit-learn: estimator checks, pipelines and searches, and what a search charges."""

import pickle
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import SkipTestWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import check_estimator
from suite_kit import REVIEWS, URL, new_tenant, spent

from privacy_gateway_client import BudgetCapReached, BudgetExhausted, Cache, Gateway, Release, new_cache_key
from privacy_gateway_client.integrations.scikit_learn import PrivateEmbeddings

GOOD = ["It is great. I love it. It works well. Buy it.", "Wonderful quality. We are happy. It is perfect. Fine."]
BAD = ["It is awful. I hate it. It broke at once. Avoid it.", "Terrible quality. We are angry. It is useless. Bad."]
TEXTS = [f"{text} Number {count}." for count in range(3) for text in (*GOOD, *BAD)]
LABELS = [1, 1, 0, 0] * 3
CHECKS = """
do_not_raise_errors_in_init_or_set_params estimator_cloneable estimator_repr estimator_tags_renamed
get_params_invariance mixin_order no_attributes_set_in_init parameters_default_constructible set_output_transform
set_params transformer_get_feature_names_out valid_tag_types
"""


def connected(key: str, folder: Path) -> Gateway:
    """As a user's function at the top level of a module makes a client in each process."""
    return Gateway(URL, key, cache=Cache(folder / "answers.db", new_cache_key(folder / "answers.key")))


def pipeline(gateway: Any, epsilon: float = 4, **options: Any) -> Any:
    return make_pipeline(PrivateEmbeddings(gateway, epsilon, **options), LogisticRegression())


def test_the_checks_of_estimators_pass() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)  # `check_estimator` runs few checks where X has no columns
        check_estimator(PrivateEmbeddings(connected, 1.0), on_skip=None)


def test_the_checks_that_need_no_table_pass() -> None:
    for name in CHECKS.split():
        getattr(estimator_checks, f"check_{name}")("PrivateEmbeddings", PrivateEmbeddings(connected, 1.0))


def test_texts_become_vectors_and_are_charged(gateway: Gateway) -> None:
    releases: list[Release] = []
    transformer = PrivateEmbeddings(gateway, 2, on_release=releases.append).fit(REVIEWS)
    assert spent(gateway) == 0
    for texts in (REVIEWS, np.array(REVIEWS)):
        vectors = transformer.transform(texts)
        assert (vectors.shape, vectors.dtype) == ((3, 384), np.float32)
    assert spent(gateway) == 12
    assert len(releases) == 2
    assert transformer.releases_[0].privacy.epsilon == 2
    assert transformer.get_feature_names_out()[0] == "privateembeddings0"


def test_what_is_no_sequence_of_texts_is_refused_before_it_is_charged(gateway: Gateway) -> None:
    for wrong in ("a text", [["a text"]], np.array([["a text"]]), [1.0]):
        with pytest.raises(ValueError, match="text"):
            PrivateEmbeddings(gateway, 2).fit_transform(wrong)
    assert spent(gateway) == 0


def test_a_clone_has_the_same_client_and_parameters(gateway: Gateway) -> None:
    first = PrivateEmbeddings(gateway, 2, options={"domain": "general"})
    second = clone(first).set_params(epsilon=3)
    assert second.gateway is gateway
    assert (first.epsilon, second.epsilon, second.options) == (2, 3, {"domain": "general"})
    assert "pgw_" not in repr(first)


def test_a_pipeline_learns(gateway: Gateway) -> None:
    model = pipeline(gateway, 25).fit(TEXTS, LABELS)
    assert model.score([*GOOD, *BAD], [1, 1, 0, 0]) >= 0.75
    assert spent(gateway) == 25 * (len(TEXTS) + 4)


def test_a_pipeline_is_stored_without_its_client(gateway: Gateway, tmp_path: Path) -> None:
    joblib.dump(pipeline(gateway, 25).fit(TEXTS, LABELS), tmp_path / "model")
    assert b"pgw_" not in (tmp_path / "model").read_bytes()
    read = joblib.load(tmp_path / "model")
    with pytest.raises(ValueError, match="set_params"):
        read.predict(GOOD)
    assert len(read.set_params(privateembeddings__gateway=gateway).predict(GOOD)) == len(GOOD)


def test_a_search_without_a_cache_charges_as_the_documentation_says(gateway: Gateway) -> None:
    search = GridSearchCV(pipeline(gateway), {"logisticregression__C": [0.1, 1]}, cv=2, error_score="raise")
    search.fit(TEXTS, LABELS)
    assert spent(gateway) == 4 * len(TEXTS) * (2 * 2 + 1)


def test_a_search_with_a_cache_buys_each_text_once_at_each_epsilon(caching_gateway: Gateway) -> None:
    grid = {"logisticregression__C": [0.1, 1, 10], "privateembeddings__epsilon": [2, 4]}
    search = GridSearchCV(pipeline(caching_gateway), grid, cv=3, error_score="raise", return_train_score=True)
    search.fit(TEXTS, LABELS)
    assert spent(caching_gateway) == (2 + 4) * len(TEXTS)


def test_processes_share_the_cache(tmp_path: Path) -> None:
    key = new_tenant()
    connect = partial(connected, key, tmp_path)
    transformer = PrivateEmbeddings(connect, 2)
    transformer.transform(TEXTS)
    assert pickle.loads(pickle.dumps(PrivateEmbeddings(connected, 2))).gateway is connected
    model = make_pipeline(transformer, LogisticRegression())
    grid = {"logisticregression__C": [0.1, 1]}
    GridSearchCV(model, grid, cv=2, n_jobs=2, error_score="raise").fit(TEXTS, LABELS)
    with Gateway(URL, key) as client:
        assert spent(client) == 2 * len(TEXTS)


def test_the_end_of_the_budget_and_a_cap_end_a_search(gateway: Gateway, poor_gateway: Gateway) -> None:
    grid = {"logisticregression__C": [0.1, 1]}
    with pytest.raises(BudgetExhausted):
        GridSearchCV(pipeline(poor_gateway), grid, cv=2, error_score="raise").fit(TEXTS, LABELS)
    with gateway.budget_cap(epsilon=100) as cap, pytest.raises(BudgetCapReached):
        GridSearchCV(pipeline(gateway), grid, cv=2, error_score="raise").fit(TEXTS, LABELS)
    assert spent(gateway) == cap.spent <= 100


def test_the_example_of_the_guide_runs(run_example: Any) -> None:
    names = run_example("scikit-learn", texts=TEXTS, labels=LABELS)
    assert names["search"].best_params_
