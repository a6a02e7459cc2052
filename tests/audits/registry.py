"""Every audit and every planted bug, in the order of the page. A further module is one row of either list."""

from collections.abc import Set
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
from audits.audited import rows_of
from audits.bug import Bug
from audits.kit import Audit

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


def sections_of(changed: Set[str]) -> set[str]:
    """The sections of the page that run any code of these rows of AUDITED."""
    return {audit.group for audit, module in _AUDITS if rows_of(module) & changed} | {
        bug.mechanism for bug, module in _BUGS if rows_of(module) & changed
    }
