"""A LiteLLM proxy for tests and benchmarks, from the environment that `tests/peers/install_litellm` makes."""

import json
import subprocess
from pathlib import Path
from typing import Any

from gateway_kit import clean_environment, end, free_port, until_answered

ROOT = Path(__file__).parents[2]
ENVIRONMENT = ROOT / ".venv-litellm"
COMMAND = ENVIRONMENT / "bin" / "litellm"
KEY = "sk-of-the-proxy"
OFFLINE = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "DO_NOT_TRACK": "1", "LITELLM_MODE": "PRODUCTION"}


def is_installed() -> bool:
    return (ENVIRONMENT / "installed").exists()


class LiteLLM:
    """A running proxy with this configuration. `url` is that of its endpoints, `KEY` the key of its clients."""

    def __init__(self, folder: Path, config: dict[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.yaml").write_text(json.dumps(config))  # JSON is YAML
        self.log_path = folder / "litellm.log"
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [str(COMMAND), "--config", "config.yaml", "--host", "127.0.0.1", "--port", str(port)], cwd=folder,
                env=clean_environment() | OFFLINE | {"LITELLM_MASTER_KEY": KEY}, stdout=log, stderr=log,
            )  # fmt: skip
        until_answered(f"{self.url}/health/liveliness", self.process, self.log_path)

    def stop(self) -> None:
        end(self.process)
