"""Every audit and every planted bug, in the order of the page. A further module is one row of either list."""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from audits import (
    bugs_answers,
    bugs_encoders,
    bugs_interference,
    bugs_routing,
    bugs_samplers,
    bugs_sentences,
    bugs_tables,
    bugs_texts,
    bugs_training,
    bugs_vectors,
    bulk,
    compositions,
    conversations,
    encoders,
    interference_models,
    interference_requests,
    over_http,
    over_http_choices,
    routing,
    sentences,
    sequences,
    tables,
    texts,
    training,
    vectors,
)
from audits.audited import DIGEST_CHARS, rows_of
from audits.bug import Bug
from audits.kit import Audit
from audits.page import title_of

_AUDITED = (
    sentences,
    routing,
    vectors,
    texts,
    tables,
    training,
    compositions,
    sequences,
    encoders,
    over_http,
    over_http_choices,
    bulk,
    conversations,
    interference_requests,
    interference_models,
)
_PLANTED = (
    bugs_samplers,
    bugs_sentences,
    bugs_routing,
    bugs_vectors,
    bugs_texts,
    bugs_tables,
    bugs_training,
    bugs_encoders,
    bugs_answers,
    bugs_interference,
)

_AUDITS = tuple((audit, Path(module.__file__)) for module in _AUDITED for audit in module.audits())
_BUGS = tuple((bug, Path(module.__file__)) for module in _PLANTED for bug in module.BUGS)
AUDITS: tuple[Audit, ...] = tuple(audit for audit, _ in _AUDITS)
BUGS: tuple[Bug, ...] = tuple(bug for bug, _ in _BUGS)


def rows_by_section() -> dict[str, set[str]]:
    """For each section of the record, by its title, the rows of AUDITED whose code its audits or bugs run."""
    found: dict[str, set[str]] = {}
    for audit, module in _AUDITS:
        found.setdefault(title_of(audit), set()).update(rows_of(module))
    for bug, module in _BUGS:
        found.setdefault(bug.mechanism, set()).update(rows_of(module))
    return found


def codes(digests: Mapping[str, str]) -> dict[str, str]:
    """A digest of the code of each section. `digests`: those of the rows of AUDITED."""
    return {
        title: sha256("\n".join(digests[row] for row in sorted(rows)).encode()).hexdigest()[:DIGEST_CHARS]
        for title, rows in rows_by_section().items()
    }
