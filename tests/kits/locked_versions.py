"""The exact versions of the libraries that the gateway needs, as this environment has them.

`make lock` writes them to constraints.txt, from which the image and `make setup` install.
"""

import tomllib
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
CONSTRAINTS = ROOT / "constraints.txt"
EXTRAS = ("bulk", "docs", "otel")
HEADER = "# Written by `make lock`: the versions with which the tests ran.\n"


def required() -> list[Requirement]:
    """What pyproject.toml names, for the gateway and its extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [line for extra in EXTRAS for line in project["optional-dependencies"][extra]]
    return [Requirement(line) for line in (*project["dependencies"], *extras)]


def locked() -> dict[str, str]:
    """The version of each library that is required, by its name. Local versions, such as `+cpu`, are left out."""
    found: dict[str, str] = {}
    waiting, seen = required(), set()
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        if (name, extras := frozenset(wanted.extras)) in seen:
            continue
        seen.add((name, extras))
        installed = distribution(name)
        found[name] = Version(installed.version).public
        for line in installed.requires or ():
            each = Requirement(line)
            if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
                waiting.append(each)
    return dict(sorted(found.items()))


if __name__ == "__main__":
    CONSTRAINTS.write_text(HEADER + "".join(f"{name}=={version}\n" for name, version in locked().items()))
