"""What a body of `/sanitize` costs, and the tasks that come of it.

Guarantee: none, and the answer says so, but for the fills `metric_dp` and `dp`.
Recognised text is removed from the output; text that was not recognised stays. This costs nothing and is never stored.
`metric_dp` is metric DP for one masked word (`core.text.sanitize`): each document costs epsilon per unit of
distance on its `vector` account and the worst case on its `token` account. `dp` is pure DP for one masked place or for
the whole document (`core.text.model_fills`): each document costs epsilon on its `token` account.
"""

from collections.abc import Sequence
from dataclasses import replace

from core.errors import InvalidInput
from core.files.disk import FileVersion
from core.ledger.records import Charge
from core.mechanisms.words.pricing import fill_event, fill_facts, word_events, word_facts
from core.text.formats.builder import TEXT
from core.text.formats.form import Form
from core.text.own_recognisers.definition import OwnReference
from core.text.policy import AUTO, DP, K_DEFAULT, MODEL_FILLS, PER_TENANT, REFUSE, SURROGATE, MaskPolicy, check_epsilon
from gpu_workers.facts import InfillFacts
from gpu_workers.handlers.sanitize_tasks import DocumentTask
from service.config.settings import Settings
from service.releases import request
from service.releases.request import Price
from service.sanitize.fills import DRY_RUN, FINE_TUNED, GUESSED, candidates_facts, check_options, check_places
from service.sanitize.formats import check_chars
from service.sanitize.schemas import FILL_DEFAULT, MaskBody, SanitizeRequest

_SUPPRESSED_MAX = 100  # finds that an answer lists for a document; it counts the others


def price(body: SanitizeRequest, settings: Settings, infill: InfillFacts | None) -> Price:
    """What `body` costs. Looks at the parameters, never at a text. `infill`: as `infill_facts` gives it, where known.

    Raises InvalidInput for an epsilon that is missing, out of range, or given for a fill that has none, for an option
    beside such a fill, and for too many documents."""
    if len(body.documents) > settings.documents_max:
        raise InvalidInput(f"at most {settings.documents_max} documents a call", field="documents")
    epsilon = body.fill.epsilon
    check_epsilon(body.fill.mode, epsilon)
    if epsilon is not None:
        _check_unguessed(body)
    check_options(
        mode=body.fill.mode,
        k=body.fill.k,
        scope=body.fill.scope,
        techniques=body.mask.techniques if "mask" in body.model_fields_set else None,
        spans=body.return_spans,
    )
    if body.fill.consistency is not None and body.fill.mode != SURROGATE:
        raise InvalidInput(f"only the fill `{SURROGATE}` has a consistency", field="fill.consistency")
    if body.fill.mechanism is not None and (epsilon is None or body.fill.mode == DP):
        raise InvalidInput("only the fill `metric_dp` has a mechanism", field="fill.mechanism")
    if body.dry_run:
        return Price(facts={"note": DRY_RUN})
    if epsilon is None:
        note = FINE_TUNED if body.fill.model else GUESSED
        return Price(facts={"note": note} if body.fill.mode in MODEL_FILLS else {})
    request.check_epsilon(epsilon, settings, field="fill.epsilon")
    whole = "all" in body.techniques
    if body.fill.mode == DP:
        scope = body.fill.scope_or_default
        event = fill_event(epsilon, scope=scope)
        return Price(
            charges=[Charge(event, document.subject) for document in body.documents],
            facts=fill_facts(scope=scope, whole=whole) | (candidates_facts(infill) if infill else {}),
        )
    events = word_events(epsilon, mechanism=body.fill.mechanism_or_default)
    return Price(
        charges=[Charge(event, document.subject) for event in events for document in body.documents],
        facts=word_facts(events, whole=whole),
    )


def _check_unguessed(body: SanitizeRequest) -> None:
    """Refuse what would reveal facts of a text that the price of the fill does not cover. Raises InvalidInput."""
    if body.dry_run:
        raise InvalidInput("a fill with a price has no dry run: it would show for free what is masked", field="dry_run")
    if body.mask.language == AUTO and body.mask.unknown_language == REFUSE:
        raise InvalidInput(
            "with a fill that has a price no language is guessed: name the language", field="mask.unknown_language"
        )


def mask_policy(
    mask: MaskBody, *, allow_lists: Sequence[str], tagger_types: Sequence[str], own: Sequence[OwnReference] = ()
) -> MaskPolicy:
    """What is masked. Raises InvalidInput for an unknown list, or an entity without a recogniser."""
    if mask.allow_list not in allow_lists:
        raise InvalidInput("no such allow list; GET /models names them", field="mask.allow_list")
    return mask.masking(own).completed(tagger_types)


def tasks_of(
    body: SanitizeRequest,
    settings: Settings,
    cost: Price,
    *,
    allow_lists: Sequence[str],
    tagger_types: Sequence[str],
    model: FileVersion | None = None,
    own: Sequence[OwnReference] = (),
    surrogate_key: bytes | None = None,
    forms: Sequence[Form | None] = (),
) -> list[DocumentTask]:
    """The documents as tasks for the workers. `forms`: one for each document, unless all are plain text. `own`: the
    recognisers of the mask and its policy. `surrogate_key`: the tenant's, which a task receives only if its surrogates
    are to be the same in all documents of the tenant.

    Raises InvalidInput for a limit, an empty text, an unknown list, or an entity without a recogniser."""
    mask = body.mask.model_copy(update={"techniques": list(body.techniques)})
    policy = mask_policy(mask, allow_lists=allow_lists, tagger_types=tagger_types, own=own)
    epsilon_nano = cost.charges[0].event.epsilon_nano if cost.charges else None
    explained = (body.return_spans or body.dry_run) and not cost.charges
    tasks = []
    for index, document in enumerate(body.documents):
        if not document.text.strip():
            raise InvalidInput("a document must hold something", field=f"documents.{index}.text")
        check_chars(document.text, settings, field=f"documents.{index}")
        form = forms[index] if forms else None
        if form is None and document.format != TEXT:
            raise RuntimeError("the form of a document was not read")
        task = DocumentTask(
            document.text if form is None else form.view,
            policy,
            FILL_DEFAULT if body.dry_run else body.fill.mode,
            epsilon_nano,
            body.fill.mechanism_or_default,
            body.fill.k or K_DEFAULT,
            body.fill.scope_or_default,
            None if body.dry_run else model,
            explain=_SUPPRESSED_MAX if explained else None,
            dry_run=body.dry_run,
            form=form,
        )
        if surrogate_key is not None and body.fill.consistency == PER_TENANT:
            task = replace(task, surrogate_key=surrogate_key)
        tasks.append(task)
    if body.fill.mode == DP:
        texts = [document.text for document in body.documents]
        check_places(texts, whole=policy.whole, places_max=settings.fill_slots_max)
    return tasks
