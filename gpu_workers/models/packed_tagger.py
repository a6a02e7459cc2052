"""The embedded tagger on a CPU: the net of `gpu_workers.models.nets.TaggerNet`, run without transformers."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import torch
from torch.nn.functional import embedding, linear

from gpu_workers.models.int8_bert import Int8Bert
from gpu_workers.models.int8_linear import RangedLinear
from gpu_workers.models.packed_adapter import packed_adapter
from gpu_workers.models.packed_bert import Dense, Group, PackedBert

# Fictitious texts of many kinds. The 8-bit layers take their ranges from these samples.
SAMPLES = (
    "😀 Yesterday Maria Keller flew from Lisbon to Norway. She works for Siemens in Munich.",
    "I rented this one with low hopes, and it was worse. Two hours of people who shout at each other in the rain, a "
    "dog that nobody feeds, and an ending that I saw coming from the first scene! The music, though, was lovely: my "
    "sister (who sings) bought the record the next day. 4/10, and three of those are for the dog.",
    "Invoice no. 4711-A: 12,500.00 EUR due 2024-05-01; pay to IBAN GB82 WEST 1234 5698 7654 32 or call (202) 555-0143.",
    "SYDNEY 1996-08-22\nWELLINGTON 3 HARBOUR ROVERS 1 (halftime 2-0), attendance: 14,210.",
    "@anna lol u ok?? see http://example.org/a?b=c #fun :) im so done w/ mondays",
    "Dear Mr. O'Neil,\n\nplease send the forms to 12 Rue de l'Église, Apt. 4, 1050 Brussels. Regards\nJ. van der Meer",
    "The patient, a 63-year-old man, was seen at the clinic with fever of 39.4 °C; C-reactive protein was raised.",
    "Sehr geehrte Frau Yıldız,\nIhre Bestellung wird am Montag an die Lindenstraße 4b in 04109 Leipzig geliefert.",
    "Le cabinet de Mme Lefèvre, à Nîmes, confirme l'opération du 3 mai ; l'ordonnance est chez le médecin de garde.",
    "Hola Begoña, ¿puedes llamar a Joaquín? El contrato de alquiler del piso de Cádiz vence en octubre.",
    "Spett.le ditta Fratelli Neri, la fattura n. 118 è scaduta: si prega di versare 240,00 EUR entro venerdì.",
    "Beste Sanne, kun je morgen naar de vergadering in Zwolle komen? Neem de notulen en de begroting mee.",
    "João, a reunião com a D. Conceição passou para quinta-feira, às 15h, na sede da associação em Évora.",
    "Proszę o przesłanie umowy Pani Wiśniewskiej do Łodzi. Termin płatności mija w środę, kwota 1250 zł.",
    "DB_USER=anna.k\nDB_PASSWORD='Xk9$mQ2!'\napi_key: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
    "def load(config, *, token=None):\n    return config.get('password') or token == os.environ['API_TOKEN'];",
    "Übermäßige Zeichen: ÀÉÎÕÜ ñ ç ł š — “quoted”, 漢字 and кириллица, x² + y² ≤ 1, 100 % … [sic].",
)


_STEP = 8  # the padded length of a row is a multiple: the first use of a shape takes about 3 ms


class PackedTagger:
    """Logits of the labels for every piece, equal to those of `TaggerNet` up to rounding. `info`: the adapter's
    metadata."""

    def __init__(self, path: Path | None, dtype: torch.dtype | None, *, ranged: bool = False) -> None:
        """See `packed_adapter`. With `ranged`, the linear layers stay in float32 until `fix_ranges` is called."""
        loaded = packed_adapter("tagger", path, torch.float32 if ranged else dtype, RangedLinear if ranged else Dense)
        self.info = loaded.info
        self._packed = loaded.bert
        self._bert: PackedBert | Int8Bert = loaded.bert
        self._case = loaded.tensors["case"]
        self._head = loaded.tensors["head.weight"], loaded.tensors["head.bias"]

    def fix_ranges(self) -> None:
        """Convert the linear layers to 8 bits, for the ranges that they have recorded."""
        self._bert = Int8Bert(self._packed)

    def __call__(self, ids: torch.Tensor, cases: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Map `ids`, `cases` int64 and `mask` `[rows, length]` to logits `[rows, length, labels]`. Most of the padding
        is not computed, and its logits are 0."""
        lengths = [min(-(-int(size) // _STEP) * _STEP, ids.shape[1]) for size in mask.sum(dim=1)]
        groups: list[Group] = []
        added = []
        first = 0
        for length, rows in groupby(lengths):
            own = slice(first, first := first + len(list(rows)))
            groups.append((ids[own, :length], mask[own, :length].bool()))
            added.append(embedding(cases[own, :length].reshape(-1), self._case))
        blocks = self._bert(groups, torch.cat(added))
        logits = torch.zeros((*ids.shape, len(self._head[1])), dtype=self._head[1].dtype)
        first = 0
        for block in blocks:
            logits[first : first + len(block), : block.shape[1]] = linear(block, *self._head)
            first += len(block)
        return logits
