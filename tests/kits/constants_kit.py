"""Other values of the gateway's constants, for tests that would otherwise wait for long or send much.

A name with a dot is that of a module, such as `service.operation.maintenance.SERIES_INTERVAL_S`. Any other name, such
as `vectors_max`, is one of the settings object. The variable that carries the values is no setting: only kits read it.
"""

import contextlib
import json
import os
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

from service.config.settings import Settings

VARIABLE = "TESTS_CONSTANTS"


def constants(values: Mapping[str, Any]) -> dict[str, str]:
    """The environment of a gateway of `gateway_kit` or `inprocess_kit` with these constants."""
    _check(values)
    return {VARIABLE: json.dumps(dict(values))}


def _check(values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        present = pkgutil.resolve_name(name) if "." in name else getattr(Settings, name)
        assert {type(value), type(present)} <= {int, float}, name


@contextlib.contextmanager
def changed(environment: Mapping[str, str], settings: Settings) -> Iterator[None]:
    """The constants of a gateway in this process, until the end of the block. Those of `settings` are its own."""
    with contextlib.ExitStack() as patches:
        for name, value in json.loads(environment.get(VARIABLE, "{}")).items():
            if "." in name:
                patches.enter_context(mock.patch(name, value))
            else:
                vars(settings)[name] = value
        yield


def change_for_good() -> None:
    """Change the constants of this process, which runs a gateway and nothing else."""
    for name, value in json.loads(os.environ.pop(VARIABLE, "{}")).items():
        if "." in name:
            module, _, constant = name.rpartition(".")
            setattr(pkgutil.resolve_name(module), constant, value)
        else:
            setattr(Settings, name, value)
