"""The handler of the embed role: encode the sentences of many documents together, then release each document.

The encoder processes sentences, not documents. The vector of a sentence depends on that sentence alone, which makes the
sensitivity of the mechanisms exact. `warm_up` checks this on the device in use and refuses to serve otherwise.

`VectorReleaser` releases vectors and the vectors of texts. A text is one unit: it is encoded as a whole, up to the
encoder's token limit, into one vector of length 1. `PackCache` holds the domain packs of the data directory.
`Classifiers` answers for the fine-tuned classifiers of tenants.
"""

from __future__ import annotations

import contextlib
import platform
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from core.accounting.events import Unit
from core.errors import GatewayError, TaskFailed
from core.files.disk import FileVersion
from core.guarded import guarded
from core.mechanisms.sentences.domain_pack import CodeNoise, DomainPack, InvalidPack
from core.mechanisms.sentences.registry import SENTENCE_MECHANISMS, sentence_mechanism
from core.mechanisms.sentences.release import SentenceMechanism
from core.mechanisms.sentences.routes import AUTO, Routes
from core.mechanisms.sentences.routing import RoutedCodes, Router
from core.mechanisms.sentences.sentence_codes import SentenceCodes
from core.mechanisms.torch_threads import threads_for
from core.mechanisms.vectors.codebook import Codebook
from core.mechanisms.vectors.projection import Projection, VectorPack, spec_projection
from core.mechanisms.vectors.pure import vector_mechanism
from core.mechanisms.vectors.release import VectorMechanism, Vectors, share_blocks
from core.mechanisms.vectors.spec import PACK_DIMENSION, VECTOR_MECHANISMS, VectorSpec, vector_spec
from core.memory import ByteCache
from gpu_workers.engine.arrays import Array, BlockArray
from gpu_workers.engine.handler import UnfitDevice
from gpu_workers.facts import EmbedderFacts
from gpu_workers.handlers.options import FileCache, WorkerOptions, load_pack
from gpu_workers.handlers.tasks import ClassifyTask, EmbedRelease, EmbedTask, Encoded, EncodeTask, VectorTask
from gpu_workers.models.device import Measured, torch_device
from gpu_workers.models.encoder import Encoder
from gpu_workers.models.integer.compiled import keep_compiled
from gpu_workers.models.sources import AUTO_PRECISION, FLOATING, INT8
from gpu_workers.packs import VECTOR_PACK, pack_paths, routes_path

if TYPE_CHECKING:
    from gpu_workers.finetune.artifact import LoadedClassifier
    from gpu_workers.models.encoder import Encoder
    from gpu_workers.models.integer.encoder import IntegerEncoder


class PackCache:
    """Holds at most `packs_max` packs with all their mechanisms, in a `FileCache`."""

    def __init__(self, device: torch.device, *, packs_max: int) -> None:
        self._device = device
        self._loaded = FileCache(self._load, loaded_max=packs_max)

    def mechanism(self, file: FileVersion, name: str, encoder_fingerprint: str | None) -> SentenceMechanism:
        """Return the mechanism over that pack. With `encoder_fingerprint`, the pack must be made for that encoder.

        Raises: InvalidPack; UnfitDevice if this device does not compute the pack's scores exactly.
        """
        made_for, mechanisms = self._loaded.get(file)
        if encoder_fingerprint is not None and encoder_fingerprint != made_for:
            raise InvalidPack("the pack was made for another encoder")
        return mechanisms[name]

    def _load(self, file: FileVersion) -> tuple[str, dict[str, SentenceMechanism]]:
        pack = DomainPack.load(Path(file.path))
        mechanisms = {name: sentence_mechanism(name, pack, self._device) for name in SENTENCE_MECHANISMS}
        if not all(mechanism.self_check() for mechanism in mechanisms.values()):
            raise UnfitDevice("this device does not compute scores exactly")
        return pack.info.encoder_fingerprint, mechanisms


_NUMBERS_AT_ONCE = 1 << 20  # for each thread, so that intermediate results stay in the cache
_KEPT_BYTES_MAX = 1 << 29  # of mechanisms, and of codebooks
_OTHER_BYTES = 1 << 16
_FLOAT16 = np.finfo(np.float16)
_CANARY_ROWS = 4
_CANARY_DIMENSION = 8
_CANARY_TENANT = "canary"


class VectorReleaser:
    """Releases the vectors of tasks. `pack`: public axes and codebooks of the encoder's space, None if there are
    none."""

    def __init__(self, encoder: Encoder | IntegerEncoder) -> None:
        self._encoder = encoder
        self._mechanisms: ByteCache[tuple[VectorSpec, str], VectorMechanism] = ByteCache(_KEPT_BYTES_MAX)
        self._codebooks: ByteCache[tuple[int, int], Codebook] = ByteCache(_KEPT_BYTES_MAX)
        self._checked: set[tuple[int, int]] = set()  # shapes of codebooks, at most seven for each dimension
        self.pack: VectorPack | None = None
        with contextlib.suppress(InvalidPack):  # the shipped pack is made for another encoder than the operator's
            self.pack = VectorPack.load(VECTOR_PACK, encoder_fingerprint=encoder.packs_of)

    def _mechanism(self, task: VectorTask) -> VectorMechanism:
        key = (task.spec, task.tenant)
        made = self._mechanisms.get(key)
        if made is None:
            made = vector_mechanism(task.spec, _projection(task), self.pack, self._codebook(task))
            self._mechanisms.put(key, made, _mechanism_bytes(made))
        return made

    def _codebook(self, task: VectorTask) -> Codebook | None:
        """Return the codebook that the task brings. Its copy is kept while there is space.

        A codebook is determined by its shape. It is checked once: the check takes a second for a large one.
        """
        if task.codebook is None:
            return None
        made = self._codebooks.get(task.codebook.shape)
        if made is None:
            shape = task.codebook.shape
            made = Codebook(torch.from_numpy(task.codebook.read().copy()), is_checked=shape in self._checked)
            self._checked.add(shape)
            self._codebooks.put(shape, made, made.nbytes)
        return made

    def check(self) -> None:
        """Release a canary by every mechanism. Raises RuntimeError if a release is not finite."""
        specs = [vector_spec(mechanism=name, dimension=_CANARY_DIMENSION, epsilon=1) for name in VECTOR_MECHANISMS]
        if self.pack is not None:
            specs.append(vector_spec(mechanism="codebook", dimension=PACK_DIMENSION, epsilon=1, projection="pca"))
        for spec in specs:
            vectors = np.eye(_CANARY_ROWS, spec.dimension, dtype=np.float32)
            mechanism = vector_mechanism(spec, spec_projection(spec, tenant=_CANARY_TENANT), self.pack)
            if not np.isfinite(mechanism.release(vectors)).all():
                raise RuntimeError("the canary release of a vector is not finite")

    def prepare(self, tasks: Sequence[VectorTask]) -> Callable[[], list[int | GatewayError]]:
        """Encode the texts of all tasks together (see `Handler.prepare`). The draw releases every row of every task
        into its block and returns the number of rows. A task that fails does not affect the others.

        Guarantee: that of each task's mechanism (`core.mechanisms.vectors`), for each row separately.
        """
        texts = [text for task in tasks for text in task.texts or ()]
        encoded = self._encoder.encode(texts) if texts else np.empty((0, 0), dtype=np.float32)

        def draw() -> list[int | GatewayError]:
            answers: list[int | GatewayError] = []
            start = 0
            for task in tasks:
                own = encoded[start : start + len(task.texts or ())]
                start += len(own)
                answers.append(guarded(self._release, task, own))
            return answers

        return draw

    def _release(self, task: VectorTask, encoded: Array) -> int:
        """Release the task's vectors, else `encoded`. Return the number of rows. Raises TaskFailed for mismatched
        shapes."""
        vectors = encoded if task.vectors is None else task.vectors.read()
        if task.released.shape != (len(vectors), task.spec.output_dimension):
            raise TaskFailed(reason="shape")
        mechanism = self._mechanism(task)
        step = max(1, _NUMBERS_AT_ONCE // task.spec.dimension)

        def work(share: list[slice]) -> None:
            for part in share:
                own = np.ascontiguousarray(vectors[part], dtype=np.result_type(vectors.dtype, np.float32))
                _put(task.released, mechanism.release(own), part.start)

        share_blocks(work, [slice(start, start + step) for start in range(0, len(vectors), step)])
        return len(vectors)


def _projection(task: VectorTask) -> Projection | None:
    spec, given = task.spec, task.projection
    if given is None:
        return spec_projection(spec, tenant=task.tenant)
    matrix = given.matrix.read()
    return Projection(spec.projection, spec.dimension, spec.output_dimension, matrix, given.spectral_norm_bound)


def _mechanism_bytes(made: VectorMechanism) -> int:
    """The memory of a mechanism, about: a projection in float32 and transposed in float64. Codebooks are shared."""
    return _OTHER_BYTES + (0 if made.projection is None else 3 * made.projection.matrix.nbytes)


def _put(place: BlockArray, rows: Vectors, start: int) -> None:
    if place.dtype == "float16":
        # Noise may exceed the range of float16: clip to the largest finite number instead of writing infinity.
        place.write_rows(np.clip(rows, _FLOAT16.min, _FLOAT16.max).astype(np.float16), start)
    else:
        place.write_rows(rows, start)


_CLASSIFIERS_LOADED_MAX = 4  # each has an encoder of its own


class Classifiers:
    """The classifiers that tenants have fine-tuned, loaded when a task names them."""

    def __init__(self, options: WorkerOptions, device: torch.device) -> None:
        self._paths = dict(options.finetune_models)
        self._device = device
        self._loaded = FileCache(self._load, loaded_max=_CLASSIFIERS_LOADED_MAX)

    def probabilities(self, task: ClassifyTask) -> Array:
        """Raises ValueError for a file that is no classifier, or whose encoder is another than the operator's."""
        return self._loaded.get(task.model).probabilities(task.rows)

    def _load(self, file: FileVersion) -> LoadedClassifier:
        from gpu_workers.finetune.artifact import LoadedClassifier  # peft: no other task needs it

        return LoadedClassifier(Path(file.path), self._paths, device=self._device)


Answer = EmbedRelease | Encoded | int | Array | GatewayError

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
        self._classifiers = Classifiers(options, torch.device(self._encoder.device))
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

    def prepare(
        self, tasks: Sequence[EmbedTask | EncodeTask | VectorTask | ClassifyTask]
    ) -> Callable[[], list[Answer]]:
        """Encode the texts (see `Handler.prepare`). The draw returns a document's embedding, the encoded sentences of a
        piece of a document, the number of vectors that it wrote to the task's block, or what a classifier has found.
        Documents that share one call of a mechanism fail together; vectors and classified texts fail by task."""
        documents = [task for task in tasks if isinstance(task, EmbedTask)]
        parts = [task for task in tasks if isinstance(task, EncodeTask)]
        encoded = self._sentences([*documents, *parts])
        sentences, vectors_of_parts = encoded[: len(documents)], encoded[len(documents) :]
        draw_vectors = self._vectors.prepare([task for task in tasks if isinstance(task, VectorTask)])
        classified = [
            guarded(self._classifiers.probabilities, task) for task in tasks if isinstance(task, ClassifyTask)
        ]

        def draw() -> list[Answer]:
            answers: dict[type, Iterator[Answer]] = {
                EmbedTask: iter(self._documents(documents, sentences)),
                EncodeTask: (Encoded(vectors.cpu().numpy(), self._worker) for vectors in vectors_of_parts),
                VectorTask: iter(draw_vectors()),
                ClassifyTask: iter(classified),
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
