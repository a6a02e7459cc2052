"""The handler of the embed role: encode the sentences of many documents together, then release each document.

`gpu_workers.handlers.vector_release` releases single vectors and texts, in the same worker.

The encoder processes sentences, not documents. The vector of a sentence depends on that sentence alone, which makes the
sensitivity of the mechanisms exact. `warm_up` checks this on the device in use and refuses to serve otherwise.
"""

from __future__ import annotations

import platform
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from core.accounting.events import Unit
from core.errors import GatewayError
from core.files.disk import FileVersion
from core.guarded import guarded
from core.mechanisms.sentences.domain_pack import CodeNoise, InvalidPack
from core.mechanisms.sentences.registry import SENTENCE_MECHANISMS, sentence_mechanism
from core.mechanisms.sentences.release import SentenceMechanism
from core.mechanisms.sentences.routes import AUTO, Routes
from core.mechanisms.sentences.routing import RoutedCodes, Router
from core.mechanisms.sentences.sentence_codes import SentenceCodes
from core.mechanisms.torch_threads import threads_for
from core.mechanisms.vectors.spec import VECTOR_MECHANISMS
from gpu_workers.engine.handler import UnfitDevice
from gpu_workers.facts import EmbedderFacts
from gpu_workers.handlers.options import WorkerOptions
from gpu_workers.handlers.pack_cache import PackCache
from gpu_workers.handlers.tasks import EmbedRelease, EmbedTask, Encoded, EncodeTask, VectorTask
from gpu_workers.handlers.vector_release import VectorReleaser
from gpu_workers.models.device import torch_device
from gpu_workers.models.encoder import Encoder
from gpu_workers.models.integer.compiled import keep_compiled
from gpu_workers.models.measured import Measured
from gpu_workers.models.sources import AUTO_PRECISION, FLOATING, INT8
from gpu_workers.packs import pack_paths, routes_path
from gpu_workers.packs.installed import load_pack

if TYPE_CHECKING:
    from gpu_workers.models.integer.encoder import IntegerEncoder

Answer = EmbedRelease | Encoded | int | GatewayError

_X86_64 = ("x86_64", "AMD64")  # where the encoder in integers is tested
_CANARY = ("The gateway is warming up.", "This sentence is public.", "So is this one.")
_CANARY_EPSILON_NANO = 10**9


class Embedder:
    """Handler of `Role.EMBED`."""

    def __init__(self, options: WorkerOptions) -> None:
        self._options = options
        self._mechanisms: dict[tuple[str, str], SentenceMechanism] = {}
        self._routed: RoutedCodes | None = None
        self._worker = uuid.uuid4().hex

    def warm_up(self) -> EmbedderFacts:
        """Load the encoder and every pack that can be used, check the device, release a canary.

        Raises: UnfitDevice if this device cannot compute scores exactly.
        """
        options = self._options
        if options.threads:
            torch.set_num_threads(options.threads)
        measured = Path(options.measured_dir) if options.measured_dir else None
        self._encoder = self._load_encoder(measured)
        if not self._encoder.self_check(Measured(measured)):
            raise UnfitDevice("on this device a sentence's vector depends on its companions in the batch")
        self._packs = PackCache(self._encoder.device, packs_max=options.packs_loaded_max)
        own = Path(options.domain_packs_dir) if options.domain_packs_dir else None
        self._load_packs(own)
        self._load_routes(routes_path(own))
        named = [*self._mechanisms] + ([] if self._routed is None else [(AUTO, SentenceCodes.name)])
        canary = [EmbedTask(_CANARY, None, mechanism, domain, _CANARY_EPSILON_NANO) for domain, mechanism in named]
        for task, document in zip(canary, self._sentences(canary), strict=True):
            (released,) = self._drawn([task], [document])
            if not torch.isfinite(torch.from_numpy(released.vector)).all():
                raise RuntimeError("the canary release is not finite")
        self._vectors = VectorReleaser(self._encoder)
        self._vectors.check()
        return EmbedderFacts(
            encoder=self._encoder.facts(),
            domains=tuple(sorted({domain for domain, _ in named})),
            mechanisms=tuple(SENTENCE_MECHANISMS),
            vector_mechanisms=tuple(VECTOR_MECHANISMS),
            vector_pack=None if self._vectors.pack is None else str(self._vectors.pack.texts["name"]),
            unit=Unit.SENTENCE.value,
        )

    def _load_encoder(self, measured: Path | None) -> Encoder | IntegerEncoder:
        """Load the encoder that the options name. By default, the bundled one in integers, or in floating point where a
        GPU is at hand."""
        precision = self._options.encoder_precision
        device = "cpu" if precision == INT8 else str(torch_device(self._options.device))
        if precision == AUTO_PRECISION:
            fits = device == "cpu" and self._options.encoder_path is None and platform.machine() in _X86_64
            precision = INT8 if fits else FLOATING
        if precision == INT8:
            keep_compiled(measured)
            from gpu_workers.models.integer.encoder import IntegerEncoder

            return IntegerEncoder()
        path = self._options.encoder_path
        return Encoder(Path(path) if path else None, device=device)

    def _load_packs(self, own: Path | None) -> None:
        """Load the installed packs. A pack that is malformed or made for another encoder is left out; the front end
        warns of it, because a worker logs nothing. Raises UnfitDevice."""
        for name, path in pack_paths(own).items():
            try:
                pack = load_pack(name, path, encoder_fingerprint=self._encoder.packs_of)
            except InvalidPack:
                continue
            for mechanism in SENTENCE_MECHANISMS:
                loaded = sentence_mechanism(mechanism, pack, self._encoder.device)
                if not loaded.self_check():
                    raise UnfitDevice("this device does not compute scores exactly")
                self._mechanisms[name, mechanism] = loaded

    def _load_routes(self, path: Path | None) -> None:
        """Load the routes, if they are well-formed and choose among the loaded packs. Raises UnfitDevice."""
        if path is None:
            return
        try:
            routes = Routes.load(path)
        except InvalidPack:
            return
        codes = {
            domain: mechanism
            for (domain, _), mechanism in self._mechanisms.items()
            if isinstance(mechanism, SentenceCodes)
        }
        if not routes.info.fits({domain: mechanism.pack.info for domain, mechanism in codes.items()}):
            return
        self._routed = RoutedCodes(Router(routes, self._encoder.device), codes)
        if not self._routed.self_check():
            raise UnfitDevice("this device does not compute routes exactly")

    def prepare(self, tasks: Sequence[EmbedTask | EncodeTask | VectorTask]) -> Callable[[], list[Answer]]:
        """Encode the texts (see `Handler.prepare`). The draw returns a document's embedding, the encoded sentences of a
        piece of a document, or the number of vectors that it wrote to the task's block. Documents that share one call
        of a mechanism fail together; vectors fail by task."""
        documents = [task for task in tasks if isinstance(task, EmbedTask)]
        parts = [task for task in tasks if isinstance(task, EncodeTask)]
        encoded = self._sentences([*documents, *parts])
        sentences, vectors_of_parts = encoded[: len(documents)], encoded[len(documents) :]
        draw_vectors = self._vectors.prepare([task for task in tasks if isinstance(task, VectorTask)])

        def draw() -> list[Answer]:
            answers: dict[type, Iterator[Answer]] = {
                EmbedTask: iter(self._documents(documents, sentences)),
                EncodeTask: (Encoded(vectors.cpu().numpy(), self._worker) for vectors in vectors_of_parts),
                VectorTask: iter(draw_vectors()),
            }
            return [next(answers[type(task)]) for task in tasks]

        return draw

    def _documents(
        self, tasks: Sequence[EmbedTask], documents: Sequence[torch.Tensor]
    ) -> list[EmbedRelease | GatewayError]:
        """Release every document, with one mechanism call for each (domain, mechanism)."""
        together: defaultdict[tuple[FileVersion | str, str], list[int]] = defaultdict(list)
        for index, task in enumerate(tasks):
            together[task.pack or task.domain, task.mechanism].append(index)
        released: dict[int, EmbedRelease | GatewayError] = {}
        for indices in together.values():
            drawn = guarded(self._drawn, [tasks[index] for index in indices], [documents[index] for index in indices])
            if isinstance(drawn, GatewayError):
                released |= dict.fromkeys(indices, drawn)
            else:
                released |= zip(indices, drawn, strict=True)
        return [released[index] for index in range(len(tasks))]

    def _drawn(self, tasks: Sequence[EmbedTask], documents: Sequence[torch.Tensor]) -> list[EmbedRelease]:
        """Release documents of one domain by one mechanism."""
        epsilon_nano = [task.epsilon_nano for task in tasks]
        sentences = sum(map(len, documents))
        if tasks[0].pack is None and tasks[0].domain == AUTO:
            routed = self._routes_for(tasks)
            with threads_for(sentences):
                released = zip(*routed.release(documents, epsilon_nano), strict=True)
            return [EmbedRelease(vector=vector, space=routed.space, domain=domain) for vector, domain in released]
        mechanism = self._mechanism(tasks)
        with threads_for(sentences):
            vectors = mechanism.release(documents, epsilon_nano)
        return [EmbedRelease(vector=vector, space=mechanism.space) for vector in vectors]

    def _routes_for(self, tasks: Sequence[EmbedTask]) -> RoutedCodes:
        """Return the routed mechanism for these tasks. Raises InvalidPack, before anything is drawn, if there is none
        or if the tasks were priced for something else."""
        if self._routed is None or any(task.mechanism != SentenceCodes.name or task.by_counts for task in tasks):
            raise InvalidPack("no routes for what the release was priced for")
        return self._routed

    def _mechanism(self, tasks: Sequence[EmbedTask]) -> SentenceMechanism:
        """Return the mechanism for these tasks. Raises InvalidPack, before anything is drawn, if the pack does not
        match."""
        domain, name = tasks[0].pack or tasks[0].domain, tasks[0].mechanism
        if isinstance(domain, str):
            if (domain, name) not in self._mechanisms:
                raise InvalidPack("no pack of this name is loaded")
            mechanism = self._mechanisms[domain, name]
        else:
            encodes = any(task.embeddings is None or task.encoded for task in tasks)
            mechanism = self._packs.mechanism(domain, name, self._encoder.packs_of if encodes else None)
        for task in tasks:
            if task.by_counts and mechanism.pack.code_table(task.epsilon_nano).noise is not CodeNoise.COUNTS:
                raise InvalidPack("the pack is not the one that the release was priced for")
        return mechanism

    def _sentences(self, tasks: Sequence[EmbedTask | EncodeTask]) -> list[torch.Tensor]:
        """Return each task's sentence vectors `float32 [k, d]`, encoded together."""
        sentences = [sentence for task in tasks for sentence in task.sentences or ()]
        encoded = self._encoder.encode(sentences) if sentences else None
        vectors, start = [], 0
        for task in tasks:
            if isinstance(task, EmbedTask) and task.embeddings is not None:
                vectors.append(torch.from_numpy(task.embeddings).to(self._encoder.device))
            elif encoded is not None:
                size = len(task.sentences or ())
                vectors.append(torch.as_tensor(encoded[start : start + size], device=self._encoder.device))
                start += size
        return vectors
