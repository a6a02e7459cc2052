"""scikit-learn: private embeddings as the first step of a pipeline.

`pip install privacy-gateway-client[scikit-learn]`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from privacy_gateway_client import Gateway
from privacy_gateway_client.integrations.calls import Endpoint, OnRelease, TextEmbedder


class PrivateEmbeddings(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Texts to private vectors, float32 `[n, dimension]`. Each text costs `epsilon` each time it is transformed.

    **A search charges often.** A pipeline that begins with this transformer transforms all of its training and test
    texts in each of its fits and scores. For n texts, `GridSearchCV` with c candidates and f folds transforms
    `c * f * n` texts, twice the training ones with `return_train_score`, and n more to refit; `cross_val_score`
    transforms `f * n`. **With a cache in the client it buys each text once**, and all folds see the same vectors;
    candidates that differ in `epsilon` are bought apart. Scores of a search over private vectors are post-processing
    of them: they cost nothing more. Pass `error_score="raise"`, so that an exhausted budget ends a search, and fit it
    in `with gateway.budget_cap(epsilon=...)` to bound what it charges.

    gateway: a client, or a function that returns one, which is called once in each process: searches with `n_jobs`
        need such a function, at the top level of a module. A file of this transformer (by joblib) has such a function
        but no client, since a client holds the API key.
    endpoint: `sentdp` protects one sentence of each text, `vector` each text as a whole.
    options: further arguments of `Gateway.embed_documents` or `Gateway.embed_texts`.
    on_release: is called with each `Release`, also by clones of this transformer.

    Nothing is learned: `fit` charges nothing. `releases_` has the releases of the last `transform`.
    """

    def __init__(
        self,
        gateway: Gateway | Callable[[], Gateway],
        epsilon: float,
        *,
        endpoint: Endpoint = "sentdp",
        options: Mapping[str, Any] | None = None,
        on_release: OnRelease | None = None,
    ) -> None:
        self.gateway = gateway
        self.epsilon = epsilon
        self.endpoint = endpoint
        self.options = options
        self.on_release = on_release

    def fit(self, X: Any, y: Any = None) -> PrivateEmbeddings:  # noqa: ARG002 - of scikit-learn's interface
        """Checks that X has texts. Charges nothing."""
        _texts(X)
        return self

    def transform(self, X: Any) -> Any:
        """Raises the errors of the client; ValueError if X is not a sequence of texts."""
        embedder = TextEmbedder(self.epsilon, self.endpoint, self.options or {}, self.on_release)
        if self.gateway is None:
            raise ValueError(
                "this transformer was read from a file or by another process, which has no API key: pass a client by "
                "set_params(gateway=...), or make the transformer with a function that returns one"
            )
        client = self.gateway if isinstance(self.gateway, Gateway) else _made(self.gateway)
        result = embedder.embed(client, _texts(X))
        self.releases_, self._n_features_out = result.releases, result.dimension
        return result.vectors

    def __sklearn_clone__(self) -> PrivateEmbeddings:
        """The clone uses the same client."""
        return type(self)(**self.get_params(deep=False))

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return state | {"gateway": None} if isinstance(self.gateway, Gateway) else state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.one_d_array, tags.input_tags.two_d_array = True, True, False
        tags.requires_fit, tags.non_deterministic = False, True
        return tags


@lru_cache(maxsize=16)
def _made(connect: Callable[[], Gateway]) -> Gateway:
    return connect()


def _texts(X: Any) -> list[str]:
    """The texts of a list, an array or a column. A table would be taken for the names of its columns."""
    if isinstance(X, str) or getattr(X, "ndim", 1) != 1:
        raise ValueError("X is a sequence of texts: a list, a one-dimensional array or a column of a table")
    texts = list(X)
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("every element of X is a text")
    return texts
