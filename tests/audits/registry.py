"""Every audit and every planted bug, in the order of the page. A further module is one row of either list."""

from __future__ import annotations

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

AUDITS: tuple[Audit, ...] = tuple(audit for module in _AUDITED for audit in module.audits())
BUGS: tuple[Bug, ...] = tuple(bug for module in _PLANTED for bug in module.BUGS)
