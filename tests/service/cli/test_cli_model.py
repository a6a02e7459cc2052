"""`privacy-gateway model fetch`: a checkpoint of a hub, pinned to a commit, and the settings that name it."""

import json
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from gateway_kit import COMMAND, clean_environment
from pydantic import ValidationError
from tiny_models import checkpoint
from transformers import AutoModelForTokenClassification

from gpu_workers.models.tagger import pretrained_tagger
from service.config.settings import Settings

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NAME = f"acme/tiny-tagger@{COMMIT}"


class Hub:
    """A server on this machine that has one repository, as a model hub serves it."""

    def __init__(self, folder: Path) -> None:
        self.requested: list[str] = []
        kit = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self._answer()

            def do_GET(self) -> None:
                kit.requested.append(self.path)
                self._answer()

            def _answer(self) -> None:
                path = self.path.partition("?")[0]
                listing, files = f"/api/models/acme/tiny-tagger/tree/{COMMIT}", f"/acme/tiny-tagger/resolve/{COMMIT}/"
                if path == listing:
                    rows = [
                        {"type": "file", "oid": "0" * 40, "size": f.stat().st_size, "path": f.name} for f in kit.files
                    ]
                    self._send(json.dumps(rows).encode(), "application/json")
                elif path.startswith(files) and (file := folder / path.removeprefix(files)).is_file():
                    self._send(file.read_bytes(), "application/octet-stream")
                else:
                    self.send_error(404)

            def _send(self, body: bytes, kind: str) -> None:
                self.send_response(200)
                for header, value in (
                    ("Content-Type", kind),
                    ("Content-Length", str(len(body))),
                    ("ETag", f'"{hash(body) & (1 << 64) - 1:016x}"'),
                    ("X-Repo-Commit", COMMIT),
                ):
                    self.send_header(header, value)
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.files = sorted(file for file in folder.iterdir() if file.is_file())
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def hub(processes: None, tmp_path: Path) -> Iterator[Hub]:
    folder = checkpoint(tmp_path / "repository", "bert", AutoModelForTokenClassification)
    (folder / "pytorch_model.bin").write_bytes(b"a pickle")
    (folder / "modeling.py").write_text("raise SystemExit")
    found = Hub(folder)
    yield found
    found.close()


def fetch(data: Path, name: str, url: str) -> subprocess.CompletedProcess[str]:
    command = [str(COMMAND), "model", "fetch", name, "--data-dir", str(data)]
    environment = clean_environment() | {"HF_ENDPOINT": url, "HF_HUB_OFFLINE": "0", "PRIVACY_GATEWAY_TAGGER": name}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)


def test_a_fetched_checkpoint_is_a_setting_and_asks_nobody(tmp_path: Path, hub: Hub) -> None:
    data = tmp_path / "data"
    with pytest.raises(ValidationError, match="model fetch acme/tiny-tagger@"):
        Settings(data_dir=data, tagger=NAME)

    fetched = fetch(data, NAME, hub.url)
    assert fetched.returncode == 0, fetched.stderr
    folder = Path(fetched.stdout.strip())
    assert sorted(file.name for file in folder.iterdir()) == [
        *("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
    ]

    requests = len(hub.requested)
    assert fetch(data, NAME, hub.url).returncode == 0
    for setting in ("tagger", "infill", "encoder_path"):
        settings = Settings(data_dir=data, **{setting: NAME})
        assert Path(getattr(settings, setting)) == folder
    assert Settings(data_dir=data, finetune_models={"tiny": NAME}).finetune_models == {"tiny": folder}
    assert "PERSON" in pretrained_tagger(folder, device="cpu").types
    assert len(hub.requested) == requests, "a fetched checkpoint is not requested again"


@pytest.mark.parametrize(
    "name", ["acme/tiny-tagger", "acme/tiny-tagger@main", f"../tiny@{COMMIT}", f"acme/t@{COMMIT[:-1]}"]
)
def test_what_is_not_pinned_is_neither_fetched_nor_a_setting(tmp_path: Path, hub: Hub, name: str) -> None:
    refused = fetch(tmp_path / "data", name, hub.url)
    assert refused.returncode == 1
    assert refused.stderr.startswith("error: ")
    assert not hub.requested
    assert not (tmp_path / "data").exists()
    with pytest.raises(ValidationError):
        Settings(tagger=name)
    with pytest.raises(ValidationError):
        Settings(finetune_models={"tiny": name})


def test_a_checkpoint_without_safetensors_leaves_nothing(tmp_path: Path, hub: Hub) -> None:
    hub.files = [file for file in hub.files if file.suffix != ".safetensors"]
    refused = fetch(tmp_path, NAME, hub.url)
    assert refused.returncode == 1
    assert "safetensors" in refused.stderr
    assert not list((tmp_path / "checkpoints").iterdir())
