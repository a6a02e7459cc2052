"""The `privacy-gateway` command: checks where its packages come from, then runs `service.cli`.

`core`, `service` and `gpu_workers` are common names. Another distribution's package of the same name, or a folder in
front of ours on the import path, would be imported instead of ours or be mixed with it. Nothing of the three packages
is imported before the check.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("core", "gpu_workers", "service")
MARK = '"""Privacy gateway: '  # the first characters of each package's `__init__.py`


def clash(package: str, root: Path) -> str | None:
    """What is wrong with `package`, which belongs in `root`, or None where it is ours."""
    spec = find_spec(package)
    if spec is None:
        return "is not installed"
    expected = root / package / "__init__.py"
    if spec.origin is None:
        return f"is the folder {next(iter(spec.submodule_search_locations or ()), '')}, not {expected.parent}"
    if Path(spec.origin).resolve() != expected:
        return f"is {spec.origin}, not {expected}"
    if not expected.read_text(encoding="utf-8").startswith(MARK):
        return f"was overwritten by another distribution: {expected}"
    return None


def main() -> None:
    """Run the command. Exits with 1 and says what is wrong if one of the packages is not ours."""
    root = Path(__file__).resolve().parent
    clashes = [f"  {package} {problem}\n" for package in PACKAGES if (problem := clash(package, root))]
    if clashes:
        sys.stderr.write(
            "error: another package stands in for one of privacy-gateway's own:\n"
            + "".join(clashes)
            + "Install privacy-gateway in an environment of its own (pipx, a virtual environment or a container),\n"
            "unset PYTHONPATH, and do not start it with `python -m` in a folder that contains one of these names.\n"
        )
        sys.exit(1)
    from service.cli.main import app

    app()


if __name__ == "__main__":
    main()
