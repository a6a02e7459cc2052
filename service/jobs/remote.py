"""How attempts start elsewhere than on this machine."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from core.state.jobs import JobRecord
from gpu_workers.jobs.protocol import JobOrder
from service.jobs.blobs import WorkingFolders
from service.jobs.start import JobProcess


class RemoteStart(ABC):
    """Starts attempts elsewhere than on this machine."""

    @abstractmethod
    def start(
        self,
        working: WorkingFolders,
        order: JobOrder,
        *,
        job: JobRecord,
        on_message: Callable[[Any], None],
        on_death: Callable[[], None],
    ) -> JobProcess:
        """As `StartJob`. The files of the job are those that `working` has stored."""
