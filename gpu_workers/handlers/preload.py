"""The handler of each role, and what a fork server imports and builds before it forks a process for it.

See `gpu_workers.fork_server_process` for the form of the names.
"""

from pathlib import Path

from gpu_workers.engine.handler import Handler
from gpu_workers.engine.protocol import Role
from gpu_workers.handlers.options import WorkerOptions
from gpu_workers.models.sources import FLOATING, INFILL_OFF, TAGGER_BUNDLED, TAGGER_OFF, InfillSource, MeasuredFolder

_COMPILED_CODE = "gpu_workers.handlers.preload:compiled_code"


def preload(role: Role, *, encoder_precision: str, tagger: str, infill: InfillSource) -> tuple[str, ...]:
    """What the handler of a role uses, by `gpu_workers.handlers.preload.make_handler`."""
    if role is Role.EMBED:
        # Not the kernels: they are imported after `keep_compiled`, which needs the folder of a worker.
        code = () if encoder_precision == FLOATING else (_COMPILED_CODE,)
        return ("gpu_workers.handlers.embedder", "gpu_workers.models.encoder:bundled_fingerprint", *code)
    names = ["gpu_workers.handlers.preload:recognition"]
    if tagger != TAGGER_OFF:
        names.append("gpu_workers.handlers.entity_tagger")
    if tagger == TAGGER_BUNDLED:
        names.append(_COMPILED_CODE)
    if role is Role.FILL and infill != INFILL_OFF:
        names.append("gpu_workers.handlers.filler")
    return tuple(names)


def recognition() -> None:
    """Build what each sanitiser has and none changes: patterns, word lists, the model of languages."""
    from core.mechanisms.words import replacement
    from core.text.languages import guess
    from core.text.mask_entity import recognisers
    from core.text.mask_words import ranked
    from core.text.policy import SURROGATE
    from core.text.reversible.conversation import mask_conversation
    from core.text.reversible.mapping import Region
    from gpu_workers.handlers.sanitiser import CANARY, CANARY_VALUES

    recognisers()
    ranked()
    replacement.shipped()
    guess(CANARY)
    places = [
        Region(CANARY.index(value), CANARY.index(value) + len(value), kind) for kind, value in CANARY_VALUES.items()
    ]
    mask_conversation([CANARY], [places], key=bytes(32), language="en", fill=SURROGATE)  # loads the lists of names


def compiled_code() -> None:
    """Import what numba needs to run a compiled kernel, which takes longer than to load the kernel."""
    from numba.core.registry import cpu_target

    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()


def make_handler(role: Role, options: WorkerOptions) -> Handler:
    """Import and build the handler of a role. Imports are local, so that a worker imports only what it runs."""
    MeasuredFolder.path = Path(options.measured_dir) if options.measured_dir else None
    if role is Role.EMBED:
        from gpu_workers.handlers.embedder import Embedder

        return Embedder(options)
    from gpu_workers.handlers.sanitiser import Sanitiser

    return Sanitiser(
        allow_list_dir=Path(options.allow_lists_dir) if options.allow_lists_dir else None,
        tagger=options.tagger,
        infill=options.infill if role is Role.FILL else INFILL_OFF,
        fill_slots_max=options.fill_slots_max,
        places_max=options.places_per_document_max,
        infill_models_loaded_max=options.infill_models_loaded_max,
        recognisers_loaded_max=options.recognisers_loaded_max,
        device=options.device,
        threads=options.threads,
    )
