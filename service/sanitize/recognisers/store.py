"""Recognisers that a request can name, and those of the operator's policies.

    <data_dir>/recognisers/tenants/<tenant>/key                 the tenant's key, wrapped by the master key
    <data_dir>/recognisers/tenants/<tenant>/<name>.recogniser   encrypted under it
    <own_dir>/recognisers/policies/<policy>/<name>.recogniser   encrypted under a key that each start makes

Files are looked up at each request, so that what another request stored can be used at once. A task of a worker has the
path of a file and the key of its tenant; the worker reads the file once and keeps the recogniser. Recognisers of other
tenants are not visible.

`RecogniserTrials` checks recognisers before they are stored, and tries drafts of them on a text.
"""

import asyncio
import re
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import Field

from core.errors import InvalidInput, RecogniserBroken, TenantLimitReached, UnknownName
from core.files.disk import FileDigests, full_disk, write_secret
from core.files.encrypted_file import new_key
from core.master_key import MasterKey
from core.text.own_recognisers.definition import (
    SCORE_DEFAULT,
    Definition,
    OwnReference,
    RecogniserFile,
    RecogniserLimits,
    read_definition,
    read_facts,
    write,
)
from core.text.own_recognisers.recogniser import DraftFinds, check
from core.text.policy import ENTITIES, OWN_THRESHOLD
from gpu_workers.engine.protocol import Role, Task
from gpu_workers.handlers.own_finder import DraftTask
from service.config.data_dir import NAME, check_name, owner_folder
from service.config.settings import PATTERNS_TAKEN, TERMS_TAKEN
from service.http.strict import AtMost, Strict
from service.isolation import IN_LOOP_SIZE_MAX, Isolation
from service.jobs.storage import Storage
from service.releases.request import ReleaseRequest
from service.sanitize.answers import RecogniserFacts, RecogniserRow, StoredRecogniser

_SUFFIX = ".recogniser"
_FACTS_KEPT_MAX = 4096

PolicyRecognisers = Mapping[str, Mapping[str, Definition]]  # of each policy, by name


class RecogniserStore:
    """The recognisers of one data directory. `own_dir`: where this process writes those of the policies.
    `per_tenant_max`: that a tenant keeps. `per_request_max`: that a request names. `policies`: those of the
    operator."""

    def __init__(
        self,
        data_dir: Path,
        master_key: MasterKey,
        storage: Storage,
        *,
        per_tenant_max: int,
        per_request_max: int,
        policies: PolicyRecognisers,
        own_dir: Path | None = None,
    ) -> None:
        self._root = data_dir / "recognisers"
        self._own_root = (own_dir or data_dir) / "recognisers"
        self._master_key = master_key
        self._storage = storage
        self._per_tenant_max = per_tenant_max
        self._per_request_max = per_request_max
        self._policies = policies
        self._published: dict[str, tuple[OwnReference, ...]] = {}
        self._keys: dict[str, bytes] = {}
        self._facts: dict[RecogniserFile, dict[str, Any]] = {}
        self._digests = FileDigests()
        self._writing = asyncio.Lock()

    async def open(self) -> None:
        """Write the recognisers of the policies, for the workers. Call this before any request. Raises OSError."""
        self._published = await asyncio.to_thread(self._publish)

    def _publish(self) -> dict[str, tuple[OwnReference, ...]]:
        folder = self._own_root / "policies"
        shutil.rmtree(folder, ignore_errors=True)
        key = new_key()
        published = {}
        for policy, recognisers in self._policies.items():
            (folder / policy).mkdir(mode=0o700, parents=True)
            own = []
            for name, definition in recognisers.items():
                path = folder / policy / f"{name}{_SUFFIX}"
                write(path, key, _label(name), {}, definition)
                own.append(OwnReference(name, definition.entity, self._file(path, key, name)))
            published[policy] = tuple(own)
        return published

    def of_request(self, tenant: str, *, policy: str | None, names: Sequence[str]) -> tuple[OwnReference, ...]:
        """The recognisers of the policy that applies, and those that the mask names. Raises as `of_policy` and
        `named`."""
        return (*self.of_policy(policy), *self.named(tenant, names))

    def of_policy(self, policy: str | None) -> tuple[OwnReference, ...]:
        """The recognisers of a policy. Raises RecogniserBroken before `open`: a policy does not apply in part."""
        if policy is None or not self._policies.get(policy):
            return ()
        if policy not in self._published:
            raise RecogniserBroken
        return self._published[policy]

    def named(self, tenant: str, names: Sequence[str]) -> tuple[OwnReference, ...]:
        """The tenant's recognisers of these names. Raises InvalidInput for one that the tenant does not have,
        RecogniserBroken."""
        found = []
        if len(names) > self._per_request_max:
            raise InvalidInput(f"A mask names at most {self._per_request_max} recognisers.", field="mask.recognisers")
        for name in dict.fromkeys(names):
            file = self._find(tenant, name)
            if file is None:
                raise InvalidInput(
                    "There is no such recogniser; GET /sanitize/recognisers lists yours.", field="mask.recognisers"
                )
            found.append(OwnReference(name, str(self._facts_of(file)["entity"]), file))
        return tuple(found)

    async def put(self, tenant: str, name: str, definition: Definition) -> tuple[RecogniserFacts, bool]:
        """Store a checked definition; its facts, and whether the name is new.

        Raises InvalidInput, TenantLimitReached, StorageFull, RecogniserBroken if the tenant's key cannot be used.
        """
        path = self._path(tenant, name)
        facts: RecogniserFacts = {
            "name": name,
            "entity": definition.entity,
            "score": definition.score,
            "case_sensitive": definition.case_sensitive,
            "whole_words": definition.whole_words,
            "patterns": len(definition.patterns),
            "deny": len(definition.deny),
            "allow": len(definition.allow),
            "context": len(definition.context),
            "updated_ms": int(time.time() * 1000),
        }
        async with self._writing:
            used = await self._storage.used_by(tenant)
            return facts, await asyncio.to_thread(self._put, tenant, path, facts, definition, used)

    def _put(self, tenant: str, path: Path, facts: Mapping[str, Any], definition: Definition, used: int) -> bool:
        is_new = not path.exists()
        if is_new and len(self._paths(tenant)) >= self._per_tenant_max:
            raise TenantLimitReached(limit="recognisers_per_tenant_max")
        self._storage.check(tenant, 4 * definition.size, used=used)
        with full_disk():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write(path, self._key(tenant), _label(path.stem), facts, definition)
        self._digests.get(path)  # a request would read the file on the event loop
        return is_new

    async def get(self, tenant: str, name: str) -> StoredRecogniser:
        """The facts and lists of one recogniser. Raises UnknownName, RecogniserBroken."""

        def read() -> StoredRecogniser:
            file = self._find(tenant, name)
            if file is None:
                raise UnknownName(code="unknown-recogniser")
            definition = asdict(Definition.unpacked(read_definition(file)))
            definition.pop("program_bytes_max")
            shown = {"name": name, **definition, "updated_ms": read_facts(file)["updated_ms"]}
            return cast(StoredRecogniser, shown)

        return await asyncio.to_thread(read)

    async def page(self, tenant: str, *, cursor: str | None, limit: int) -> tuple[list[RecogniserRow], str | None]:
        """The facts of the tenant's recognisers in the order of their names, and the cursor of the next page. A broken
        file has its name only."""

        def read() -> tuple[list[RecogniserRow], str | None]:
            names = [name for name in sorted(self._paths(tenant)) if cursor is None or name > cursor]
            rows = [self._row(tenant, name) for name in names[:limit]]
            return rows, names[limit - 1] if len(names) > limit else None

        return await asyncio.to_thread(read)

    def _row(self, tenant: str, name: str) -> RecogniserRow:
        try:
            file = self._find(tenant, name)
            return cast(RecogniserRow, {"name": name, "usable": True} | (self._facts_of(file) if file else {}))
        except RecogniserBroken:
            return {"name": name, "usable": False}

    async def remove(self, tenant: str, name: str) -> None:
        """Delete a recogniser. Raises UnknownName."""
        try:
            path = self._path(tenant, name)
            async with self._writing:
                await asyncio.to_thread(path.unlink)
        except (InvalidInput, FileNotFoundError):
            raise UnknownName(code="unknown-recogniser") from None

    def _folder(self, tenant: str) -> Path:
        return owner_folder(self._root, tenant)

    def _path(self, tenant: str, name: str) -> Path:
        return self._folder(tenant) / f"{check_name(name)}{_SUFFIX}"

    def _paths(self, tenant: str) -> dict[str, Path]:
        paths: Iterable[Path] = self._folder(tenant).glob(f"*{_SUFFIX}")
        return {path.stem: path for path in paths if re.fullmatch(NAME, path.stem)}

    def _find(self, tenant: str, name: str) -> RecogniserFile | None:
        if not re.fullmatch(NAME, name):
            return None
        path = self._path(tenant, name)
        return self._file(path, self._key(tenant), name) if path.is_file() else None

    def _key(self, tenant: str) -> bytes:
        """The tenant's key, created on first use. Raises RecogniserBroken."""
        if tenant not in self._keys:
            path = self._folder(tenant) / "key"
            if not path.exists():
                with suppress(FileExistsError):  # another process created it first
                    write_secret(path, self._master_key.wrap_recognisers_key(new_key(), tenant=tenant))
            try:
                self._keys[tenant] = self._master_key.unwrap_recognisers_key(path.read_bytes(), tenant=tenant)
            except OSError:
                raise RecogniserBroken from None
        return self._keys[tenant]

    def _file(self, path: Path, key: bytes, name: str) -> RecogniserFile:
        """Raises RecogniserBroken for a file that has been removed."""
        digest = self._digests.get(path)
        if digest is None:
            raise RecogniserBroken
        return RecogniserFile(str(path), digest, key, _label(name))

    def _facts_of(self, file: RecogniserFile) -> dict[str, Any]:
        facts = self._facts.get(file)
        if facts is None:
            if len(self._facts) >= _FACTS_KEPT_MAX:
                self._facts.clear()
            facts = self._facts[file] = read_facts(file)
        return facts


def _label(name: str) -> str:
    return f"recogniser/{name}"


Strings = Annotated[list[str], AtMost(PATTERNS_TAKEN)]
Terms = Annotated[list[str], AtMost(TERMS_TAKEN)]


class RecogniserBody(Strict):
    """A recogniser: body of `PUT /sanitize/recognisers/{name}`, and a recogniser of a policy."""

    entity: str = Field(
        "", max_length=64, description="Type of the finds: an own one, such as PROJECT_CODE, or another."
    )
    patterns: Strings = Field(default=[], description="Regular expressions in the syntax of RE2.")
    deny: Terms = Field(default=[], description="Terms that are always masked.")
    allow: Terms = Field(default=[], description="Terms in which patterns and the tagger mask nothing.")
    context: Strings = Field(default=[], description="Words near which a find of a pattern scores higher.")
    score: float = Field(SCORE_DEFAULT, gt=0, le=1, description="Score of the finds of patterns.")
    case_sensitive: bool = False
    whole_words: bool = True

    def definition(self) -> Definition:
        """The definition, unchecked."""
        return Definition(
            entity=self.entity,
            score=self.score,
            case_sensitive=self.case_sensitive,
            whole_words=self.whole_words,
            patterns=tuple(self.patterns),
            deny=tuple(self.deny),
            allow=tuple(self.allow),
            context=tuple(self.context),
        )


class DraftBody(Strict):
    """Body of `POST /sanitize/recognisers/test`. `threshold`: by default that of the recogniser's type."""

    recogniser: RecogniserBody
    text: str
    threshold: float | None = Field(None, gt=0, le=1)


TEST_CHARS_MAX = 100_000  # of a text that a recogniser is tried on: an answer lists up to 1,000 finds in it


class RecogniserTrials:
    """Checks and tries recognisers. Stores nothing."""

    def __init__(self, isolation: Isolation) -> None:
        self._isolation = isolation

    async def checked(self, tenant: str, body: RecogniserBody) -> Definition:
        """The definition of `body`. Raises InvalidInput, which repeats nothing of it; NotStarted."""
        return (await self._checked(tenant, body))[0]

    async def _checked(self, tenant: str, body: RecogniserBody) -> tuple[Definition, int]:
        """The definition, and the instructions to which its patterns compile. Raises InvalidInput, NotStarted."""
        definition = body.definition()
        # A pattern of a few characters may take a second to compile.
        least = IN_LOOP_SIZE_MAX if not definition.patterns else 0
        size = await self._isolation.run(
            tenant, definition.size, check, definition, RecogniserLimits(), field="patterns", in_loop_size_max=least
        )
        return definition, size

    async def release_request(self, tenant: str, body: DraftBody) -> ReleaseRequest:
        """The request that tries a draft in a worker. Raises InvalidInput, NotStarted."""
        if len(body.text) > TEST_CHARS_MAX:
            raise InvalidInput(f"at most {TEST_CHARS_MAX} characters", field="text")
        try:
            definition, instructions = await self._checked(tenant, body.recogniser)
        except InvalidInput as error:
            error.field = f"recogniser.{error.field}"
            raise
        entity = definition.entity
        threshold = body.threshold or (ENTITIES[entity].threshold if entity in ENTITIES else OWN_THRESHOLD)
        task = DraftTask(body.text, definition.packed(), threshold, instructions)

        def render(results: list[DraftFinds], _common: dict[str, Any]) -> dict[str, Any]:
            (result,) = results
            finds = [asdict(find) | {"list": "deny" if find.pattern is None else "patterns"} for find in result.finds]
            return {"entity": entity or None, "threshold": threshold, "finds": finds, "total": result.total}

        return ReleaseRequest(charges=(), role=Role.SANITIZE, tasks=[Task(task, task.weight)], render=render)
