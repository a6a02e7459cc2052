"""Where the finds of a form's view are in its source, for an explanation."""

from __future__ import annotations

from collections.abc import Sequence

from core.text.formats.form import Form
from core.text.formats.visible_value import read_value


class FormRegions:
    """Maps regions of the view to regions of the source. In a block that is encoded as a whole, the region is the
    block. Regions in ascending order take time linear in the source."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._read: tuple[int, Sequence[int]] | None = None  # a place, and where its characters are

    def region(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the smallest region with all characters of values in [start, end); None if there are none."""
        found = [self._source(*part) for part in self._form.parts(start, end)]
        return (min(first for first, _ in found), max(last for _, last in found)) if found else None

    def _source(self, at: int, start: int, end: int) -> tuple[int, int]:
        form = self._form
        block = form.block(at)
        if block.transfer.encoded:
            return block.start, block.end
        if self._read is None or self._read[0] != at:
            raw = block.content[form.starts[at] : form.ends[at]]
            self._read = at, read_value(form.codec(at), raw)[1]
        places, base = self._read[1], block.start + form.starts[at]
        first, last = start - form.view_starts[at], end - form.view_starts[at]
        # Several characters may have one place, as an entity of two characters has.
        while places[last] <= places[last - 1] and last + 1 < len(places):
            last += 1
        return base + places[first], base + places[last]
