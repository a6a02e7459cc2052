"""What gateways and worker servers send to each other: every class of a task, a result or a fact.

A class that a new task or result uses needs a row in `TABLE`. `tests/gpu_workers/handlers/test_wire.py` follows the
types of all fields, and fails for a class that has none. The order of the rows is part of the protocol. A gateway and a
worker with another table or other code refuse each other (`Codec.schema`).
"""

from __future__ import annotations

from core.files.file_version import FileVersion
from core.mechanisms.vectors.spec import VectorSpec
from core.text.formats.form import Block, Form
from core.text.formats.regions import FormRegions
from core.text.formats.transfer import Transfer
from core.text.mask_tagged import Tagged
from core.text.origins import Origins, SuppressedFind, SuppressedFinds
from core.text.own_recognisers.draft import DraftFind, DraftFinds
from core.text.own_recognisers.finds import OwnHits
from core.text.own_recognisers.stored import OwnReference, RecogniserFile
from core.text.partly_filled import PartlyFilled
from core.text.policy import Mask, MaskPolicy, Sanitised, SanitizeTask
from core.text.recognised import WindowFinds
from core.text.recogniser import Hit, Hits
from core.text.reversible import key_tree
from core.text.reversible.form import Form as SurrogateForm
from core.text.reversible.mapping import Content, Mapping, Pair
from core.text.reversible.masked import Filled, MaskedConversation, Region
from core.text.sanitize import Reading
from core.text.spans import Span, Spans
from core.text.visible import SentText
from gpu_workers.code_digest import code_digest
from gpu_workers.engine.remote.codec import Codec, Plain
from gpu_workers.facts import EmbedderFacts, EncoderFacts, InfillFacts, SanitiserFacts, TaggerFacts, WordVectorFacts
from gpu_workers.handlers.conversation_tasks import Beginning, BeginningsTask, MaskTask, RestoreTask
from gpu_workers.handlers.fill_tasks import FilledPlaces, FillTask
from gpu_workers.handlers.own_finder import DraftTask
from gpu_workers.handlers.sanitize_tasks import DocumentTask, WindowTask
from gpu_workers.handlers.tasks import EmbedRelease, EmbedTask, Encoded, EncodeTask, PublicProjection, VectorTask
from gpu_workers.handlers.word_tasks import SurrogateTask, WordsToDraw, WordTask

TABLE: tuple[type | Plain, ...] = (
    # facts
    EmbedderFacts, EncoderFacts, SanitiserFacts, InfillFacts, WordVectorFacts, TaggerFacts,
    # embed
    EmbedTask, EncodeTask, VectorTask, VectorSpec, PublicProjection, FileVersion, EmbedRelease, Encoded,
    # sanitise and fill
    SanitizeTask, DocumentTask, WindowTask, FillTask, WordTask, SurrogateTask, MaskPolicy, OwnReference, RecogniserFile,
    Form, Block, Transfer, Sanitised, Spans, Span, Origins, SuppressedFind, SuppressedFinds, Mask, WindowFinds, Hits,
    Hit, Tagged, OwnHits, PartlyFilled, Reading, SentText, FilledPlaces, WordsToDraw,
    # recognisers that are tried out
    DraftTask, DraftFinds, DraftFind,
    # conversations
    MaskTask, RestoreTask, BeginningsTask, Region, Content, Pair, Filled, MaskedConversation, Beginning,
    Plain(FormRegions, ("_form", "_read")),
    Plain(Mapping, ("content", "tree")), SurrogateForm,
    Plain(key_tree.KeyTree, ("_root", "_first")),
    Plain(key_tree._Tails, ("_found", "_texts", "_shorter", "_chars_max")),
)  # fmt: skip


def wire_codec() -> Codec:
    """The codec of gateways and worker servers."""
    return Codec(TABLE, code=code_digest())
