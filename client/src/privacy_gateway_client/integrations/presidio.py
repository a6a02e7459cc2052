"""Presidio: an operator that fills finds by the gateway, and a recogniser that finds by it.

`pip install privacy-gateway-client[presidio]`
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from presidio_analyzer import AnalysisExplanation, RecognizerResult, RemoteRecognizer
from presidio_anonymizer.entities import InvalidParamError
from presidio_anonymizer.operators import Operator, OperatorType

from privacy_gateway_client import Gateway
from privacy_gateway_client.integrations.calls import reporting

_PRICED = ("dp", "metric_dp")


class GatewayFill(Operator):
    """An operator of presidio-anonymizer that replaces each find by a fill of the gateway, one call for each find.

    Its parameters, in an `OperatorConfig("gateway", {...})`:
    gateway: the client. Required.
    fill: as of `Gateway.sanitize`, by default `{"mode": "surrogate"}`, a value of the same type and form. Each find
        gets one of its own, unless `consistency` is `tenant`. The fills `dp` and `metric_dp` cost `fill.epsilon` as
        `POST /sanitize` says, and have a guarantee for the words of the find, not for the rest of the text.
    language: of the surrogates, `auto` by default, which a short find seldom shows.
    on_release: is called with each `Release`.
    A find of a type that the gateway does not have is filled as words without a type.
    """

    def operate(self, text: str, params: dict[str, Any] | None = None) -> str:
        given = params or {}
        gateway: Gateway = given["gateway"]
        fill = given.get("fill", {"mode": "surrogate"})
        mask = {"language": given.get("language", "auto")}
        with reporting(given.get("on_release")) as report:
            if fill["mode"] in _PRICED:  # only texts have these fills
                result = gateway.sanitize([text], mask={"techniques": ["all"]}, fill=fill)
                report(result)
                return result.texts[0]
            known = given.get("entity_type") in _types(gateway)
            rule = {"path": "find", **({"type": given["entity_type"]} if known else {"action": "mask"})}
            document = {
                "text": json.dumps({"find": text}),
                "format": "json",
                "format_options": {"json": {"rules": [rule]}},
            }
            result = gateway.sanitize([document], mask=mask if known else mask | {"techniques": ["all"]}, fill=fill)
            report(result)
        filled: str = json.loads(result.texts[0])["find"]
        return filled

    def validate(self, params: dict[str, Any] | None = None) -> None:
        given = params or {}
        if not isinstance(given.get("gateway"), Gateway):
            raise InvalidParamError("the parameter gateway is a Gateway")
        fill = given.get("fill", {"mode": "surrogate"})
        if not isinstance(fill, dict) or "mode" not in fill:
            raise InvalidParamError("the parameter fill is a dictionary with a mode")

    def operator_name(self) -> str:
        return "gateway"

    def operator_type(self) -> OperatorType:
        return OperatorType.Anonymize


class GatewayRecognizer(RemoteRecognizer):
    """A recogniser of presidio-analyzer that finds by `POST /analyze`. It costs nothing and guarantees nothing.

    supported_language: one of the gateway's; a registry needs a recogniser for each language.
    supported_entities: by default all that the gateway finds in that language.
    score_threshold: of the gateway's finds; by default each type has its own.
    """

    def __init__(
        self,
        gateway: Gateway,
        *,
        supported_language: str = "en",
        supported_entities: Sequence[str] | None = None,
        score_threshold: float | None = None,
        name: str = "GatewayRecognizer",
    ) -> None:
        found = supported_entities or gateway.presidio.supported_entities(language=supported_language)
        self._gateway, self._threshold, self._name = gateway, score_threshold, name
        super().__init__(
            supported_entities=list(found), name=name, supported_language=supported_language, version="0.1.0"
        )

    def get_supported_entities(self) -> list[str]:
        return list(self.supported_entities)

    def analyze(
        self,
        text: str,
        entities: list[str],
        nlp_artifacts: Any = None,  # noqa: ARG002 - of Presidio's interface
    ) -> list[RecognizerResult]:
        wanted = [entity for entity in entities or self.supported_entities if entity in self.supported_entities]
        if not wanted or not text.strip():
            return []
        members: dict[str, Any] = {} if self._threshold is None else {"score_threshold": self._threshold}
        found = self._gateway.presidio.analyze(
            text, language=self.supported_language, entities=wanted, return_decision_process=True, **members
        )
        return [self._result(one) for one in found]

    def _result(self, found: dict[str, Any]) -> RecognizerResult:
        explained = found.get("analysis_explanation") or {}
        return RecognizerResult(
            entity_type=found["entity_type"],
            start=found["start"],
            end=found["end"],
            score=found["score"],
            analysis_explanation=AnalysisExplanation(
                recognizer=self._name,
                original_score=explained.get("original_score", found["score"]),
                textual_explanation=explained.get("textual_explanation") or "",
            ),
            recognition_metadata={
                RecognizerResult.RECOGNIZER_NAME_KEY: self._name,
                RecognizerResult.RECOGNIZER_IDENTIFIER_KEY: self.id,
            },
        )


@lru_cache(maxsize=16)
def _types(gateway: Gateway) -> frozenset[str]:
    """The types that the gateway can fill."""
    return frozenset(entity["name"] for entity in gateway.entities()["entities"])
