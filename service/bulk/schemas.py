"""What a bulk release reads and writes, as members of a request."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from core.blobs.store import KEY_CHARS_MAX, check_key
from core.errors import InvalidInput
from gpu_workers.bulk.readers import Columns, Format
from service.config.stores import StoreName
from service.http.strict import AtMost, Strict, exactly_one_of

KEYS_MAX = 1000
_SUFFIXES: dict[Format, tuple[str, ...]] = {
    "jsonl": (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz"),
    "csv": (".csv", ".csv.gz"),
    "parquet": (".parquet",),
}


def _below(key: str) -> str:
    if not key.isprintable() or any(segment in ("", ".", "..") for segment in key.split("/")):
        raise PydanticCustomError("value_error", "a path of names with / between them, without . and .. as a name")
    return key


def _without_slash(key: Any) -> Any:
    return key.removesuffix("/") if isinstance(key, str) else key


def _folder(key: str) -> str:
    try:
        return check_key(key)
    except ValueError:
        said = "names of letters, digits, `.`, `_` and `-` with / between them; none begins with a point"
        raise PydanticCustomError("value_error", said) from None


Key = Annotated[str, Field(min_length=1, max_length=KEY_CHARS_MAX), AfterValidator(_below)]
Column = Annotated[str, Field(min_length=1, max_length=256)]


class ColumnsBody(Strict):
    """The columns of the documents. In JSON lines they are members of each object."""

    text: Column = Field("text", description="A string, or a list of strings: sentences that you give.")
    id: Column | None = Field(None, description="A string of at most 128 characters or an integer.")
    subject: Column | None = Field(None, description="A string of 1 to 256 characters or an integer.")

    def columns(self) -> Columns:
        return Columns(self.text, id=self.id, subject=self.subject)


class SourceBody(Strict):
    """Where the documents are: the upload of this job, or objects of a store."""

    upload: Literal[True] | None = Field(None, description="The documents are uploaded with the job.")
    store: StoreName | None = Field(None, description="A store of the operator, with `keys` or `prefix`.")
    keys: Annotated[list[Key], AtMost(KEYS_MAX)] | None = Field(None, min_length=1, description="Objects, in order.")
    prefix: Annotated[Key, BeforeValidator(_without_slash)] | None = Field(
        None, description="A folder: all objects in it and below it, but for names that begin with `_` or `.`."
    )
    format: Format | None = Field(
        None,
        description="By default that of the names of `keys`. JSON lines and CSV may be compressed by gzip. CSV has a "
        "line of column names.",
    )
    columns: ColumnsBody = ColumnsBody()

    _one_place = exactly_one_of("upload", "store")

    @model_validator(mode="after")
    def _check(self) -> "SourceBody":
        named = [name for name in ("keys", "prefix") if getattr(self, name) is not None]
        if self.store is None and named:
            raise PydanticCustomError("value_error", "keys and prefix are for a store")
        if self.store is not None and len(named) != 1:
            raise PydanticCustomError("value_error", "with store, give exactly one of keys, prefix")
        if len(set(self.keys or ())) < len(self.keys or ()):
            raise PydanticCustomError("value_error", "an object is named twice in keys")
        if self.format is None:
            self.format = _format_of(self.keys or ())
        return self

    @property
    def read_format(self) -> Format:
        """The format, given or found."""
        if self.format is None:
            raise ValueError("a source has a format")
        return self.format


def _format_of(keys: Sequence[str]) -> Format:
    for format, suffixes in _SUFFIXES.items():
        if keys and all(key.endswith(suffixes) for key in keys):
            return format
    raise PydanticCustomError("value_error", "give format: the names do not say it", {"permitted": list(_SUFFIXES)})


class TargetBody(Strict):
    """Where the results go: a new folder of a store, or, if none is named, a file of the job."""

    store: StoreName | None = Field(None, description="A store of the operator, with `prefix`.")
    prefix: Annotated[str, BeforeValidator(_without_slash), AfterValidator(_folder)] | None = Field(
        None, description="A folder that is empty or does not exist."
    )
    format: Literal["jsonl", "parquet"] = "jsonl"

    @model_validator(mode="after")
    def _check(self) -> "TargetBody":
        if (self.store is None) != (self.prefix is None):
            raise PydanticCustomError("value_error", "give both of store and prefix, or none")
        return self


def check_installed(format: Format, *, field: str) -> None:
    """Raises InvalidInput for Parquet on a gateway without its library."""
    if format == "parquet" and find_spec("pyarrow") is None:
        raise InvalidInput("this gateway has no Parquet: its operator can install privacy-gateway[bulk]", field=field)
