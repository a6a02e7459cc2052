"""The settings of a command: read with all of their problems named at once, and shown with where each one comes from.

The master key and the admin key are kept outside Redis: in the settings, else in files of the data directory.

Guarantee: no message and no row has a secret, or a value that is not understood.
"""

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from annotated_types import Ge, Gt, Le, Lt
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from core import credentials
from core.files.disk import read_secret, write_secret
from core.master_key import MasterKey
from service.config.settings import KNOWN_ELSEWHERE, PREFIX, Settings, SettingsRefused, read_file
from service.wrong_values import WORDS

HIDDEN = "(hidden)"
DEFAULT = "default"


@dataclass(frozen=True)
class SettingRow:
    """One setting as `config show` prints it. `value`: as JSON has it, with secrets hidden."""

    name: str
    value: Any
    source: str


def read_settings(**given: Any) -> Settings:
    """The settings of this process, of which the command line gives `given`. Raises SettingsRefused."""
    try:
        return Settings(**given)
    except ValidationError as error:
        entries = error.errors(include_input=False, include_url=False)
    origins = SettingOrigins(given)
    raise SettingsRefused(*(line for entry in entries for line in _problems(entry, origins)))


class SettingOrigins:
    """Where settings come from. The configuration file can be read."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = given
        self._variables = {name.upper(): name for name in os.environ}
        path = given.get("config_file") or os.environ.get(self._variables.get(f"{PREFIX}CONFIG_FILE", ""))
        self.file = None if path is None else Path(path)
        self._in_file = {} if self.file is None else read_file(self.file)

    def of(self, name: str) -> str:
        """The option, the variable or the file that has this setting; `default` for none."""
        if name in self._given:
            return f"--{name.removesuffix('_file').replace('_', '-')}"
        for variable in (f"{PREFIX}{name.upper()}", KNOWN_ELSEWHERE.get(name)):
            if variable in self._variables:
                return self._variables[variable]
        return f"{name} in {self.file}" if name in self._in_file else DEFAULT

    def is_in_file(self, name: str) -> bool:
        return name in self._in_file


def _problems(entry: ErrorDetails, origins: SettingOrigins) -> Iterator[str]:
    """The sentences of one error."""
    if not entry["loc"]:  # of settings together, which name themselves
        yield from str(entry["ctx"]["error"]).splitlines()
        return
    name, *members = map(str, entry["loc"])
    if entry["type"] == "extra_forbidden" and not members:
        yield _unknown(name, origins)
        return
    where = origins.of(name)
    if members:
        where += f", member {'.'.join(members)}"
    if entry["type"] == "value_error":
        said = str(entry["ctx"]["error"])
        own = said.removeprefix(f"{name.upper()} ")
        yield f"{where} {own}" if own != said else f"{where}: {said}"
        return
    permitted = None if members else _permitted(name)
    template = WORDS.get(entry["type"])
    if permitted is not None and template is not None:
        yield f"{where} must be {permitted}"
    else:
        yield f"{where} {template.format_map(entry.get('ctx', {}))}" if template else f"{where}: {entry['msg']}"


def _unknown(name: str, origins: SettingOrigins) -> str:
    """What to say of a name that is no setting, with the nearest one that is."""
    in_file = origins.is_in_file(name)
    sought = name.upper().removeprefix(PREFIX).lower()
    nearest = difflib.get_close_matches(sought, Settings.model_fields, 1, cutoff=0.6)
    said = f"{name} in {origins.file} is no setting" if in_file else f"{name} is no setting"
    if not nearest:
        return said
    return f"{said}; the nearest is {nearest[0] if in_file else PREFIX + nearest[0].upper()}"


def _permitted(name: str) -> str | None:
    """The numbers that a setting may be; None for one that is no number."""
    field = Settings.model_fields[name]
    kinds = {int: "a whole number", float: "a number", int | None: "a whole number"}
    kind = kinds.get(field.annotation)  # type: ignore[arg-type]
    if kind is None:
        return None
    bounds = []
    for bound in field.metadata:
        match bound:
            case Ge(ge):
                bounds.append(f"at least {ge}")
            case Gt(gt):
                bounds.append(f"above {gt}")
            case Le(le):
                bounds.append(f"at most {le}")
            case Lt(lt):
                bounds.append(f"below {lt}")
    return f"{kind}, {' and '.join(bounds)}" if bounds else kind


def shown(settings: Settings, **given: Any) -> list[SettingRow]:
    """Every setting with its value and source, by name. `given`: as for `read_settings`."""
    origins = SettingOrigins(given)
    values = settings.model_dump(mode="json")
    return [SettingRow(name, _hidden(name, values[name]), origins.of(name)) for name in sorted(Settings.model_fields)]


def _hidden(name: str, value: Any) -> Any:
    """The value without what is secret in it."""
    if isinstance(value, dict):
        return {key: _hidden(key, member) for key, member in value.items()}
    if isinstance(value, list):
        return [_hidden(name, member) for member in value]
    if isinstance(value, str) and re.fullmatch(r"\*+", value):  # how pydantic writes a secret
        return HIDDEN
    return _without_password(value) if name == "redis_url" and isinstance(value, str) else value


def _without_password(url: str) -> str:
    """The URL of a Redis: its host, port and database, and the names of its other members."""
    scheme, _, address = url.partition("://")
    place, _, query = address.partition("?")
    if "@" in query:  # where a password begins that is not percent-encoded, nobody can say
        return f"{scheme}://{HIDDEN}"
    members = (member.partition("=") for member in query.split("&") if query)
    shown = (f"{name}={value if name == 'db' else HIDDEN}" if equals else HIDDEN for name, equals, value in members)
    user, at, host = place.rpartition("@")
    return f"{scheme}://{HIDDEN if at else user}{at}{host}{'?' if query else ''}{'&'.join(shown)}"


def load_master_key(settings: Settings) -> MasterKey:
    """The master key from the settings, or from the data directory. Raises ValueError, OSError."""
    if settings.master_key is not None:
        return MasterKey.from_hex(settings.master_key.get_secret_value())
    return MasterKey.load_or_create(settings.data_dir)


def load_admin_keys(settings: Settings) -> tuple[str, ...]:
    """The admin key, and the previous one where the settings still accept it. Raises as `load_admin_key`."""
    previous = settings.admin_key_previous
    return (load_admin_key(settings), *([] if previous is None else [previous.get_secret_value()]))


def load_admin_key(settings: Settings) -> str:
    """The admin key from the settings, or from `admin.key` in the data directory, which is created on first use.

    Raises: ValueError for a file that other users can read or that holds no complete key; the file is not replaced.
        OSError.
    """
    if settings.admin_key is not None:
        return credentials.admin_key(settings.admin_key.get_secret_value())
    path = settings.data_dir / "admin.key"
    if not path.exists():
        with suppress(FileExistsError):  # another process created it first
            write_secret(path, f"{credentials.new_admin_key()}\n".encode())
    return read_secret(
        path,
        lambda content: credentials.admin_key(content.decode(errors="replace")),
        advice="delete the file, and the next start makes a new key",
    )
