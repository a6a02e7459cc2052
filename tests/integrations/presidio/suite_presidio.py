"""Presidio: the analyzer finds by the gateway, and the anonymizer fills by it."""

from typing import Any

import pytest
from presidio_analyzer import AnalyzerEngine, PatternRecognizer, RecognizerRegistry, RecognizerResult
from presidio_analyzer.nlp_engine import NoOpNlpEngine
from presidio_anonymizer import AnonymizerEngine
from presidio_anonymizer.entities import InvalidParamError, OperatorConfig
from suite_kit import LETTER, shown, spent

from privacy_gateway_client import BudgetExhausted, Gateway, Release
from privacy_gateway_client.integrations.presidio import GatewayFill, GatewayRecognizer


def analyzer(*recognizers: Any) -> AnalyzerEngine:
    registry = RecognizerRegistry(recognizers=list(recognizers))
    nlp_engine = NoOpNlpEngine([{"lang_code": "en", "model_name": "none"}])
    return AnalyzerEngine(registry=registry, nlp_engine=nlp_engine)


def anonymizer() -> AnonymizerEngine:
    engine = AnonymizerEngine()
    engine.add_anonymizer(GatewayFill)
    return engine


def filled(gateway: Gateway, text: str, found: Any, **params: Any) -> str:
    operators = {"DEFAULT": OperatorConfig("gateway", {"gateway": gateway, **params})}
    return anonymizer().anonymize(text, found, operators=operators).text


def test_the_analyzer_finds_what_the_gateway_finds(gateway: Gateway) -> None:
    recognizer = GatewayRecognizer(gateway)
    assert {"PERSON", "LOCATION", "EMAIL_ADDRESS", "CREDIT_CARD"} <= set(recognizer.get_supported_entities())
    text = f"😀😀 {LETTER}"  # beyond the basic plane
    found = analyzer(recognizer).analyze(text, language="en")
    places = {(one.entity_type, text[one.start : one.end]) for one in found}
    assert ("PERSON", "Maria Keller") in places
    assert ("LOCATION", "Lisbon") in places
    assert ("CREDIT_CARD", "4111 1111 1111 1111") in places
    assert {one.recognition_metadata["recognizer_name"] for one in found} == {"GatewayRecognizer"}
    assert spent(gateway) == 0


def test_entities_and_other_recognisers_of_the_registry_apply(gateway: Gateway) -> None:
    badge = PatternRecognizer("BADGE", deny_list=["Keller-7"])
    engine = analyzer(GatewayRecognizer(gateway), badge)
    found = engine.analyze("Keller-7 wrote to a.b@example.org.", language="en", entities=["BADGE", "EMAIL_ADDRESS"])
    assert sorted(one.entity_type for one in found) == ["BADGE", "EMAIL_ADDRESS"]
    assert GatewayRecognizer(gateway).analyze("Keller-7", ["BADGE"]) == []
    assert GatewayRecognizer(gateway).analyze(" ", []) == []


def test_a_recogniser_of_some_types_and_a_threshold(gateway: Gateway) -> None:
    engine = analyzer(GatewayRecognizer(gateway, supported_entities=["CREDIT_CARD"], score_threshold=1.0))
    assert [one.score for one in engine.analyze(LETTER, language="en")] == [1.0]


def test_finds_are_filled_by_surrogates_of_their_type(gateway: Gateway) -> None:
    found = analyzer(GatewayRecognizer(gateway)).analyze(LETTER, language="en")
    text = filled(gateway, LETTER, found)
    assert not shown(text)
    assert text.startswith("Please write to ")
    again = analyzer(GatewayRecognizer(gateway)).analyze(text, language="en")
    assert {"PERSON", "EMAIL_ADDRESS", "CREDIT_CARD"} <= {one.entity_type for one in again}
    assert spent(gateway) == 0


def test_one_value_has_one_surrogate_where_that_is_asked_for(gateway: Gateway) -> None:
    text = 'Keller "K" and Keller "K"'
    found = [RecognizerResult("PERSON", start, start + 10, 1.0) for start in (0, 15)]
    for language in ("auto", "de"):
        made = filled(gateway, text, found, fill={"mode": "surrogate", "consistency": "tenant"}, language=language)
        first, second = made.split(" and ")
        assert first == second != text[:10]


def test_types_that_the_gateway_lacks_are_filled_too(gateway: Gateway) -> None:
    found = [RecognizerResult("BADGE", 0, 8, 1.0)]
    for mode in ("surrogate", "class_marker", "marker"):
        assert "Keller-7" not in filled(gateway, "Keller-7 wrote.", found, fill={"mode": mode})


def test_a_fill_with_a_price_is_charged_and_reported(gateway: Gateway, poor_gateway: Gateway) -> None:
    releases: list[Release] = []
    found = [RecognizerResult("PERSON", 0, 12, 1.0)]
    fill = {"mode": "metric_dp", "epsilon": 2}
    text = filled(gateway, "Maria Keller wrote.", found, fill=fill, on_release=releases.append)
    assert text.endswith(" wrote.")
    assert [(one.privacy.guarantee, one.privacy.epsilon) for one in releases] == [("metric-dp", 2)]
    assert spent(gateway, "token") > 0
    with pytest.raises(BudgetExhausted):
        filled(poor_gateway, "Maria Keller wrote.", found, fill={"mode": "metric_dp", "epsilon": 100})


def test_wrong_parameters_are_refused(gateway: Gateway) -> None:
    found = [RecognizerResult("PERSON", 0, 12, 1.0)]
    for params in ({}, {"gateway": gateway, "fill": "surrogate"}):
        operators = {"DEFAULT": OperatorConfig("gateway", params)}
        with pytest.raises(InvalidParamError):
            anonymizer().anonymize("Maria Keller", found, operators=operators)


def test_the_example_of_the_guide_runs(run_example: Any) -> None:
    names = run_example("Presidio")
    assert "Maria Keller" not in names["text"]
    assert "Lisbon" not in names["text"]
