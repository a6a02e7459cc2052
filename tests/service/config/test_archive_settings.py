"""The archive is off unless an operator turns it on."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from service.config.settings import Settings
from service.ledger_connection import archives


def test_a_gateway_archives_only_if_the_operator_says_so(tmp_path: Path) -> None:
    assert not archives(Settings(data_dir=tmp_path))
    assert archives(Settings(data_dir=tmp_path, archive="on"))
    with pytest.raises(ValidationError):
        Settings.model_validate({"data_dir": tmp_path, "archive": "auto"})
