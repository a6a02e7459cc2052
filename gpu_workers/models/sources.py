"""Which models a worker loads, as the operator's settings name them. Light: the front end reads them without torch."""

from __future__ import annotations

from gpu_workers.models.endpoint import Endpoint

TAGGER_BUNDLED, TAGGER_OFF = "bundled", "off"  # any other tagger is the folder of a token classifier
AUTO_PRECISION, FLOATING, INT8 = "auto", "float", "int8"  # the encoder's numbers
INFILL_BUNDLED, INFILL_OFF = "bundled", "off"
InfillSource = str | Endpoint  # one of those two, the folder of a language model, or an endpoint
