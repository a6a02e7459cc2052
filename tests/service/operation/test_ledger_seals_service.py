"""The last seal and the epoch of a gateway."""

import json
from pathlib import Path

from command_kit import run_command
from inprocess_kit import opened_gateway


def epoch(file: Path) -> int:
    return int(json.loads(file.read_text())["epoch"])


def test_an_orderly_end_seals_what_is_left(tmp_path: Path) -> None:
    epoch_file = tmp_path / "other-disk" / "ledger.epoch"
    with opened_gateway(tmp_path, EPOCH_FILE=str(epoch_file), SEAL_INTERVAL_S="3600") as gateway:
        assert gateway.tenant().embed().status_code == 200
        assert epoch(epoch_file) == 1
    assert epoch(epoch_file) == 2
    lines = [json.loads(line) for line in run_command(gateway.data_dir, "ledger", "export").stdout.splitlines()]
    assert lines[-2]["type"] == "seal", "nothing comes after the last seal"
