"""Every audit and every planted bug, in the order of the page. A further module is one row of either list."""

from __future__ import annotations

from audits import bugs_sentences, bugs_tables, bugs_texts, bugs_vectors, sentences, tables, texts, vectors
from audits.bug import Bug
from audits.kit import Audit

AUDITS: tuple[Audit, ...] = (*sentences.audits(), *vectors.audits(), *texts.audits(), *tables.audits())
BUGS: tuple[Bug, ...] = (*bugs_sentences.BUGS, *bugs_vectors.BUGS, *bugs_texts.BUGS, *bugs_tables.BUGS)
