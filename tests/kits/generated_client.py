"""Writes what is generated of the client: its blocking form, by unasync, and its models, by datamodel-code-generator.

`make client` writes `generated/` of the client's package, and a test fails where it is not current. unasync removes
`async` and `await`, and replaces names: its own, such as `__aenter__` and `AsyncIterator`, and those of `NAMES`. The
models are those of the answers in the OpenAPI document of the gateway, as far as the client reads them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from datamodel_code_generator import DataModelType, Formatter, InputFileType, PythonVersion, generate
from unasync import Rule, unasync_files

PACKAGE = Path(__file__).parents[2] / "client/src/privacy_gateway_client"
SOURCE, GENERATED = PACKAGE / "asynchronous", PACKAGE / "generated"
_REFERENCE = re.compile(r'"#/components/schemas/(\w+)"')
_READ = re.compile(r"generated\.models import (?:\(([^)]+)\)|(.+))|\bmodels\.([A-Z]\w+)")  # by the client's modules

# the name in the asynchronous client, and in the blocking one
NAMES = {
    "asynchronous": "generated",
    "AsyncGateway": "Gateway",
    # of httpx
    "AsyncClient": "Client",
    "async_transport": "transport",
    "aread": "read",
    "aiter_bytes": "iter_bytes",
    "aiter_lines": "iter_lines",
    "aclose": "close",
    # of contextlib
    "aclosing": "closing",
    # of wire.py
    "AsyncFunction": "Function",
    "async_body": "body",
    "async_gather": "gather",
    "async_in_thread": "in_thread",
    "async_loop": "loop",
    "async_sleep": "sleep",
}


def write(folder: Path, document: Mapping[str, Any]) -> None:
    """Write the blocking client, and the models of the document, into a folder, in place of the modules that it has."""
    for path in folder.glob("*.py"):
        path.unlink()
    sources = sorted(SOURCE.glob("*.py"))
    unasync_files([str(path) for path in sources], [Rule(str(SOURCE), str(folder), NAMES)])
    for path in sources:
        made = folder / path.name
        made.write_text(f"# Written by `make client` from asynchronous/{path.name}. Do not edit.\n{made.read_text()}")
    write_models(folder / "models.py", document)


def write_models(path: Path, document: Mapping[str, Any]) -> None:
    """Write the models that the client reads, and those that they hold."""
    components = document["components"]["schemas"]
    schemas = {name: _untitled(components[name]) for name in sorted(_needed(components))}
    generate(
        json.dumps({"openapi": document["openapi"], "paths": {}, "components": {"schemas": schemas}}),
        input_file_type=InputFileType.OpenAPI, output=path, output_model_type=DataModelType.PydanticV2BaseModel,
        target_python_version=PythonVersion.PY_310, base_class="privacy_gateway_client.model.Answer",
        custom_file_header="# Written by `make client` from the gateway's OpenAPI document. Do not edit.",
        formatters=[Formatter.BUILTIN], use_schema_description=True, use_field_description=True,
        use_single_line_docstring=True, use_double_quotes=True,
    )  # fmt: skip


def _needed(schemas: Mapping[str, Any]) -> set[str]:
    """The names of the models that the client's modules import, and of those to which these refer."""
    sources = [path.read_text() for path in PACKAGE.rglob("*.py") if GENERATED not in path.parents]
    found = [names for source in sources for match in _READ.findall(source) for names in match]
    waiting = re.findall(r"\w+", " ".join(found))
    needed: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += _REFERENCE.findall(json.dumps(schemas[name]))
    return needed


def _untitled(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema without the titles that pydantic makes from names."""
    members = {name: {**member} for name, member in schema["properties"].items()}
    for member in members.values():
        member.pop("title", None)
    return {**schema, "properties": members}


def api_document() -> dict[str, Any]:
    """The OpenAPI document of a gateway with the default settings, which is built and not started."""
    from service.app import create_app
    from service.config.settings import Settings
    from service.gateway import Gateway

    with TemporaryDirectory() as folder:
        return create_app(Gateway(Settings(data_dir=Path(folder)))).openapi()


if __name__ == "__main__":
    write(GENERATED, api_document())
