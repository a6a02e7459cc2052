"""Renders the Helm chart of deploy/helm, and validates what it makes, without a cluster.

`errors_of` refuses unknown fields: in Kubernetes' own objects by the schemas of `kubernetes-validate`, in those of the
Prometheus operator and of KubeRay by the schemas in tests/deploy/helm/schemas, which were reduced from their
definitions: that of a RayCluster to the fields that the chart uses. Rules that these definitions state in CEL are not
evaluated.
"""

import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import helm_python
import yaml
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "privacy-gateway"
OWN_SCHEMAS = Path(__file__).parents[1] / "deploy" / "helm" / "schemas"
# the oldest that Chart.yaml admits, and the newest with schemas
VERSIONS = ("1.29.0", "1.37.0")

Manifest = dict[str, Any]
Values = dict[str, Any]


@cache
def _loaded(path: Path) -> helm_python.Chart:
    return helm_python.Chart.load(path)


def rendered(values: Values | None = None, chart: Path = CHART) -> dict[str, str]:
    """The text of each template for a release `test` in the namespace `apps`. Raises HelmError."""
    return _loaded(chart).render(values or {}, name="test", namespace="apps")


class _Loader(yaml.CSafeLoader):
    """Refuses a mapping with the same key twice, as the API server does."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        if len(keys) != len(set(keys)):
            raise ValueError(f"a key occurs twice: {keys}")
        return super().construct_mapping(node, deep)


def read(text: str) -> list[Manifest]:
    """The manifests in a text."""
    return [each for each in yaml.load_all(text, Loader=_Loader) if each]


def render(values: Values | None = None, chart: Path = CHART) -> list[Manifest]:
    """The manifests of all templates."""
    texts = rendered(values, chart)
    return [each for path, text in texts.items() if path.endswith(".yaml") for each in read(text)]


def notes(values: Values | None = None) -> str:
    """What `helm install` prints."""
    return rendered(values)["privacy-gateway/templates/NOTES.txt"]


def example(name: str) -> Values:
    """The values of an example file."""
    return yaml.safe_load((CHART / "examples" / f"{name}.yaml").read_text())


EXAMPLES = sorted(path.stem for path in (CHART / "examples").glob("*.yaml"))


def of_kind(manifests: list[Manifest], kind: str) -> list[Manifest]:
    return [each for each in manifests if each["kind"] == kind]


def pods(manifests: list[Manifest]) -> Iterator[tuple[str, Manifest]]:
    """The name and the template of all pods that the manifests lead to."""
    for each in manifests:
        name = f"{each['kind']}/{each['metadata']['name']}"
        if each["kind"] in ("StatefulSet", "Deployment"):
            yield name, each["spec"]["template"]
        elif each["kind"] == "RayCluster":
            for group in (each["spec"]["headGroupSpec"], *each["spec"]["workerGroupSpecs"]):
                yield name, group["template"]


@cache
def _validator(kind: str, api_version: str, version: str) -> Draft202012Validator:
    own = OWN_SCHEMAS / f"{kind.lower()}.json"
    if own.exists():
        return Draft202012Validator(json.loads(own.read_text()), registry=_definitions(version))
    group, _, number = api_version.rpartition("/")
    name = f"{group.split('.')[0]}-{number}" if group else number
    folder = files("kubernetes_validate") / "kubernetes-json-schema" / f"v{version}-local-strict"
    schema = json.loads((folder / f"{kind.lower()}-{name}.json").read_text())
    return Draft202012Validator(schema, registry=_definitions(version))


@cache
def _definitions(version: str) -> Registry:
    folder = files("kubernetes_validate") / "kubernetes-json-schema" / f"v{version}-local-strict"
    content = json.loads((folder / "_definitions.json").read_text())
    return Registry().with_resource("_definitions.json", Resource.from_contents(content, DRAFT202012)).crawl()


def errors_of(manifest: Manifest, version: str = VERSIONS[-1]) -> list[str]:
    """What the API server would refuse."""
    place = f"{manifest['kind']}/{manifest.get('metadata', {}).get('name')}"
    if place.endswith("/None"):
        return [f"{place}: no name"]
    return [
        f"{place}: {'.'.join(map(str, error.absolute_path))}: {error.message}"
        for error in _validator(manifest["kind"], manifest["apiVersion"], version).iter_errors(manifest)
    ]
