"""The owner's own page of real against synthetic rows, beside what `privacy-gateway synthesize` has fetched.

Made in the command's process of the file that it has sent anyway; nothing of it goes to the gateway. It is covered by
no guarantee, and so only its owner can read the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from core.files.secret_file import write_secret


def write_comparison(path: Path, data: Path, artifact: Path, result: dict[str, Any], *, outside: str) -> None:
    """`result` is the job's. Raises ValueError for rows that are not those of the job, OSError."""
    # late: with scipy and scikit-learn
    from core.errors import BadCorpus
    from core.synthesis.declared import DeclaredTable
    from core.synthesis.encoding import ROWS_MAX, Outside
    from gpu_workers.synthesis.artifact import load_source
    from gpu_workers.synthesis.comparison import comparison_page
    from gpu_workers.synthesis.job import read_table
    from service.synthesis.table_files import json_lines

    source = load_source(artifact)
    declared = DeclaredTable(source.schema, result["dimension"])
    try:
        real = read_table(json_lines(data, declared), declared, outside=Outside(outside), rows_max=ROWS_MAX)
    except BadCorpus as error:
        raise ValueError(f"{data}: {error.detail}") from None
    multiplier = result["privacy"]["noise_multiplier"]
    page = comparison_page(result["name"], real, source, noise_multiplier=multiplier)
    write_secret(path, page.encode(), replace=True)
