"""Every audit and every planted bug, in the order of the page. A further module is one row of either list."""

from __future__ import annotations

from audits import bugs_sentences, bugs_vectors, sentences, vectors
from audits.bug import Bug
from audits.kit import Audit

AUDITS: tuple[Audit, ...] = (*sentences.audits(), *vectors.audits())
BUGS: tuple[Bug, ...] = (*bugs_sentences.BUGS, *bugs_vectors.BUGS)
