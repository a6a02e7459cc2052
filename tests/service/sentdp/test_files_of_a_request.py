"""How many files a reader has to open who follows one body of `POST /embed/sentdp` through the gateway."""

import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest
from gateway_kit import DOCUMENT, LEAN
from inprocess_kit import Gateway

ROOT = Path(__file__).parents[3]
LAYERS = ("service", "gpu_workers", "core")
BACKGROUND = "service/operation/"  # what runs beside requests, such as the measurement of the event loop
FILES_MAX = 57  # 55, and a margin for other work in the background


class Tracer:
    """Notes the file of each function that is called while `records`, in threads that begin after its own. Modules that
    are imported do not count."""

    def __init__(self) -> None:
        self.records = False
        self._paths: set[str] = set()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if self.records and event == "call" and frame.f_code.co_name != "<module>":
            self._paths.add(frame.f_code.co_filename)

    @property
    def files(self) -> list[str]:
        """Those of the three layers."""
        own = [Path(path).relative_to(ROOT) for path in self._paths if Path(path).is_relative_to(ROOT)]
        files = sorted(path.as_posix() for path in own if path.parts[0] in LAYERS)
        return [file for file in files if not file.startswith(BACKGROUND)]


@pytest.fixture
def tracer() -> Iterator[Tracer]:
    made = Tracer()
    threading.setprofile(made)
    yield made
    threading.setprofile(None)


def test_a_release_crosses_few_files(tracer: Tracer, tmp_path: Path) -> None:
    gateway = Gateway(tmp_path / "data", LEAN)
    try:
        tenant = gateway.tenant()
        assert tenant.embed([{"text": DOCUMENT}], epsilon=1.0).status_code == 200  # what is computed once is computed
        tracer.records = True
        assert tenant.embed([{"text": DOCUMENT}], epsilon=1.0).status_code == 200
        tracer.records = False
    finally:
        gateway.stop()
    assert "service/sentdp/endpoints.py" in tracer.files
    assert len(tracer.files) <= FILES_MAX, "\n".join([f"{len(tracer.files)} files", *tracer.files])
