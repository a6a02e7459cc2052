"""What endpoints answer, declared as types: the API page, the tests and the models of the client are made from them.

An answer is a `TypedDict` beside the endpoint that gives it, so that mypy checks what the endpoint returns, and each
member has a description. A declaration costs nothing while the gateway serves: an answer is written as it is returned.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NotRequired

import orjson
from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import Field, GetJsonSchemaHandler, TypeAdapter
from pydantic_core.core_schema import definitions_schema
from typing_extensions import TypedDict

if TYPE_CHECKING:
    from core.state.keystore import ApiKey

PROBLEM_TYPE = "application/problem+json"
PROVIDERS_PREFIX = "/v1/"  # under it, errors have the shape of the provider whose clients call there
SCHEMAS = "#/components/schemas/{model}"
_EXAMPLES = Path(__file__).with_name("examples.json")  # method and path to a body that is answered as it stands
_REQUEST_ID = {
    "name": "X-Request-ID",
    "in": "header",
    "description": "An id for the logs, which the answer repeats. The gateway makes one if there is none.",
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"},
}
_IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "The same key and body again get the same answer and are charged once. The answer has the key.",
    "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"},
}
RELEASE_WORDS_HEADERS = [
    {
        "name": name,
        "in": "header",
        "description": f"{what}; by default as the key says. The journal keeps it: no personal data.",
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9 ._:@/+-]{0,64}$"},
    }
    for name, what in (("X-Purpose", "What the release is for"), ("X-Recipient", "Who receives the release"))
]
IDEMPOTENT = {"parameters": [_IDEMPOTENCY_KEY, *RELEASE_WORDS_HEADERS]}  # `openapi_extra` of a route


def doc(description: str) -> Any:
    """The description of a member."""
    return Field(description=description)


@dataclass(frozen=True)
class _Declared:
    """The schema of a type for a value that pydantic does not look at."""

    kind: Any

    def __get_pydantic_json_schema__(self, _: Any, handler: GetJsonSchemaHandler) -> Any:
        return handler(definitions_schema(TypeAdapter(self.kind).core_schema, []))


class AnswerRoute(APIRoute):
    """An `APIRoute` whose declared answer is documentation: FastAPI does not validate or copy what is returned."""

    def __init__(self, path: str, endpoint: Any, **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        if self.response_model is not None:  # `include_router` makes the route that serves from this one
            self.response_model = Annotated[Any, _Declared(self.response_model)]


class KeyWords(TypedDict):
    """What the creator of a key said of it; null for an empty one, and 30 days after the key has ended. In a journal,
    what the request said in `X-Purpose` and `X-Recipient` comes first."""

    key_label: Annotated[str | None, doc("The name of the API key.")]
    purpose: Annotated[str | None, doc("What the releases of the key are for.")]
    recipient: Annotated[str | None, doc("Who receives the releases of the key.")]


def words_of(key: "ApiKey | None") -> KeyWords:
    if key is None:
        return {"key_label": None, "purpose": None, "recipient": None}
    return {"key_label": key.label or None, "purpose": key.purpose or None, "recipient": key.recipient or None}


class BudgetAmount(TypedDict):
    """An amount of privacy budget."""

    epsilon: Annotated[float, doc("The epsilon, exact to 1e-9.")]
    delta: Annotated[float, doc("The delta, exact to 1e-15.")]


class FieldProblem(TypedDict):
    """What is wrong with a member of a request."""

    field: Annotated[
        str,
        doc("The member, by its path. An unknown one is named if it is at most 40 letters and underscores."),
    ]
    message: NotRequired[Annotated[str, doc("What is wrong; absent where `kind` says it.")]]
    kind: NotRequired[Annotated[str, doc("What is wrong, as a code of pydantic; absent where `message` says it.")]]
    permitted: NotRequired[Annotated[list[str], doc("The members or values that there are; of an unknown one.")]]
    nearest: NotRequired[Annotated[str, doc("Of `permitted` the one within two letters of what was sent, if any.")]]


class TableFault(TypedDict):
    """One kind of fault of a table's rows."""

    reason: Annotated[str, doc("What is wrong, as a fixed word.")]
    column: NotRequired[Annotated[str, doc("The declared column.")]]
    position: NotRequired[Annotated[int, doc("The place of an unknown column in its row, from 1.")]]
    nearest: NotRequired[Annotated[str, doc("The declared column with a name like that of the unknown one.")]]
    permitted: NotRequired[Annotated[str, doc("What the column permits, from its declaration.")]]
    lines: Annotated[list[int], doc("The first rows with it, at most five: lines, or rows of a JSON body, from 1.")]
    count: Annotated[int, doc("How many rows have it.")]


class RefusingArm(TypedDict):
    """What a rule of an account has left, and what the refused request needs of it."""

    name: Annotated[str, doc("The rule: `basic`, or an accountant.")]
    order: Annotated[float | None, doc("The order of a Rényi divergence; null for other rules.")]
    requested: Annotated[float | None, doc("What the request needs; null if the rule cannot price it.")]
    remaining: Annotated[float, doc("What is left, in the unit of the rule.")]
    remaining_delta: NotRequired[Annotated[float, doc("The delta that is left; of the rule `basic` alone.")]]


class _Facts(TypedDict):
    """What an error says beside its name and its sentence."""

    request_id: NotRequired[Annotated[str, doc("The X-Request-ID of the request; absent in the record of a job.")]]
    errors: NotRequired[Annotated[list[FieldProblem], doc("What is wrong with which member, at most 20.")]]
    charged: NotRequired[Annotated[bool, doc("Whether the budget was charged; absent where the code says it.")]]
    released: NotRequired[Annotated[bool, doc("False: nothing was released. Absent where the code says it.")]]
    reason: NotRequired[Annotated[str | None, doc("A fixed word for what has failed; of some codes.")]]
    account: NotRequired[Annotated[str, doc("The account that refuses the request; of some codes.")]]
    requested: NotRequired[Annotated[BudgetAmount, doc("What the request needs; of `budget-exhausted`.")]]
    remaining: NotRequired[Annotated[BudgetAmount, doc("What the account has left; of `budget-exhausted`.")]]
    arms: NotRequired[Annotated[list[RefusingArm], doc("What each rule has left; of `budget-exhausted`.")]]
    role: NotRequired[Annotated[str, doc("The role that the key lacks; of `role-missing`.")]]
    limit: NotRequired[Annotated[str | None, doc("The setting that was exceeded; null if there is no name for it.")]]
    row: NotRequired[Annotated[int | None, doc("The number of the row, from 0; of `bad-row`.")]]
    line: NotRequired[Annotated[int, doc("The number of the line, from 1; of jobs that failed.")]]
    count: NotRequired[Annotated[int, doc("How many there are; of jobs that failed.")]]
    faults: NotRequired[
        Annotated[list[TableFault], doc("What is wrong with the rows of a table, at most 50 kinds; of a synthesis.")]
    ]
    cause: NotRequired[Annotated[str, doc("The code of the cause; of `not-ready`.")]]
    workers: NotRequired[Annotated[dict[str, Any], doc("The stage of each worker; of `not-ready`.")]]


class ProblemDocument(_Facts):
    """An error (RFC 9457). It repeats no value of the request; docs/reference/problems.md lists the codes."""

    type: Annotated[str, doc("A link, relative to the gateway, to the page that explains the code.")]
    code: Annotated[str, doc("The stable name of the error.")]
    title: Annotated[str, doc("The error in a sentence, fixed for the code.")]
    status: NotRequired[Annotated[int, doc("The HTTP status; absent in the record of a job.")]]
    detail: NotRequired[Annotated[str, doc("What is wrong in this case; absent if `title` says it.")]]


class ProviderError(_Facts):
    """The content of an error under `/v1`."""

    message: Annotated[str, doc("What is wrong.")]
    type: Annotated[str, doc("The provider's name for this kind of error.")]
    param: NotRequired[Annotated[str | None, doc("The parameter of the request that is wrong, if it is one.")]]
    code: NotRequired[Annotated[str, doc("The stable name of the error; absent from one of an upstream.")]]


class ProviderProblem(TypedDict):
    """An error under `/v1`, in the shape that OpenAI's and Anthropic's clients read."""

    type: NotRequired[Annotated[str, doc("`error`; for Anthropic's clients alone.")]]
    error: ProviderError


class DescribedAPI(FastAPI):
    """A `FastAPI` whose description has operations named as their functions, headers, examples, and the schemas of
    errors, which have another shape under `/v1`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(generate_unique_id_function=lambda route: route.name, **options)

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            described = super().openapi()
            schemas = described.setdefault("components", {}).setdefault("schemas", {})
            for kind in (ProblemDocument, ProviderProblem):
                schema = TypeAdapter(kind).json_schema(ref_template=SCHEMAS)
                schemas.update(schema.pop("$defs") | {kind.__name__: schema})
            examples = orjson.loads(_EXAMPLES.read_bytes())
            shaped = {"application/json": {"schema": {"$ref": SCHEMAS.format(model=ProviderProblem.__name__)}}}
            for path, operations in described.get("paths", {}).items():
                for method, operation in operations.items():
                    operation["parameters"] = [*operation.get("parameters", []), _REQUEST_ID]
                    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
                    if (example := examples.get(f"{method.upper()} {path}")) is not None:
                        body["example"] = example
                    if "properties" in (schema := body.get("schema", {})):  # of a job
                        body["schema"] = {"$ref": SCHEMAS.format(model=schema["title"])}
                        schemas.update(schema.pop("$defs", {}) | {schema["title"]: schema})
                responses = [each for operation in operations.values() for each in operation["responses"].values()]
                for response in responses if path.startswith(PROVIDERS_PREFIX) else ():
                    if PROBLEM_TYPE in response.get("content", {}):
                        response["content"] = shaped
        return super().openapi()


DEFAULT_PROBLEM: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "A problem document.",
        "content": {PROBLEM_TYPE: {"schema": {"$ref": SCHEMAS.format(model=ProblemDocument.__name__)}}},
    }
}
