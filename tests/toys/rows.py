"""The rows of the toy mechanism and the toy recogniser. Import this before anything of `service`.

Tables are read when schemas are built, so a row that is not in the source file of its table is added first. In the
project itself each is a line of its table.
"""

from core.mechanisms.sentences.registry import SENTENCE_MECHANISMS, MechanismRow
from core.text.policy import ENTITIES, EntityRow
from gpu_workers.engine.handler import Handler, HandlerFactory

SENTENCE_MECHANISMS["toy_uniform"] = MechanismRow("pure", "toys.toy_mechanism:ToyUniform")

ENTITIES["TOY_BADGE"] = EntityRow(0.5, "toys.toy_recogniser", by_form=True)


def handler_with_rows(factory: HandlerFactory) -> Handler:
    """Build a handler in a worker process that has these rows: the process imports this module to call it."""
    return factory()
