"""Checks that answers are what the OpenAPI document declares: in tests, for each answer of a gateway in their process.

Objects are closed for this check: a member that no type declares is an error, though clients shall accept it.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
from fastapi import FastAPI
from jsonschema_rs import Draft202012Validator

_JSON, _LINES, _PROBLEM = "application/json", "application/x-ndjson", "application/problem+json"


class DeclaredAnswers:
    """The answers that the document of an application declares."""

    def __init__(self, app: FastAPI) -> None:
        self._document = closed(app.openapi())
        self._validators: dict[str, Draft202012Validator] = {}

    def check(self, answer: httpx.Response, *, method: str, route: str | None) -> None:
        """Raise AssertionError for an answer of JSON or lines of JSON that is not as declared. `route`: its path in the
        document; None for a request that no route took."""
        kind = answer.headers.get("content-type", "").split(";")[0]
        operation = self._document["paths"].get(route, {}).get(method.lower())
        if operation is None or kind not in (_JSON, _LINES, _PROBLEM) or not answer.content:
            return
        responses = operation["responses"]
        declared = responses.get(str(answer.status_code), responses["default"]).get("content", {}).get(kind)
        if declared is None:
            assert answer.is_error, f"{method} {route}: no {kind} is declared for {answer.status_code}"
            return
        validator = self._validator(json.dumps(declared["schema"]))
        for value in _values(answer, kind):
            found = [f"{'.'.join(map(str, one.instance_path))}: {one.message}" for one in validator.iter_errors(value)]
            assert not found, f"{method} {route} {answer.status_code} is not as declared: {found}"

    def _validator(self, schema: str) -> Draft202012Validator:
        if schema not in self._validators:
            whole = json.loads(schema) | {"components": self._document["components"]}
            self._validators[schema] = Draft202012Validator(whole)
        return self._validators[schema]


def _values(answer: httpx.Response, kind: str) -> Iterator[Any]:
    yield from map(json.loads, answer.content.splitlines()) if kind == _LINES else [answer.json()]


def closed(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with objects that have no other members than those they declare."""

    def close(value: Any) -> Any:
        if isinstance(value, list):
            return [close(each) for each in value]
        if not isinstance(value, dict):
            return value
        found = {name: close(each) for name, each in value.items()}
        if isinstance(value.get("properties"), dict) and value.get("type") == "object":
            found.setdefault("additionalProperties", False)
        return found

    whole: dict[str, Any] = close(document)
    return whole
