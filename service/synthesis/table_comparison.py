"""A page that compares real and synthetic rows, for the owner of the real rows.

`privacy-gateway synthesize --compare` makes it locally from the file that it sends. The page is not sent to the
gateway. No guarantee covers it, so only the owner can read the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from core.files.secret_file import write_secret


def write_comparison(path: Path, data: Path, artifact: Path, result: dict[str, Any], *, outside: str) -> None:
    """Write the page. `result`: of the job. Raises ValueError for rows that do not belong to the job, OSError."""
    # imported late: scipy and scikit-learn
    from core.job_errors import BadCorpus
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
