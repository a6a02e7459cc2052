"""A form with one file, read as it arrives (`multipart/form-data`, RFC 7578).

Guarantee: nothing of it is written to a disk, and at most one received chunk of the file and FIELDS_BYTES_MAX bytes of
the other fields are in memory.
"""

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.exceptions import HTTPException

from core.errors import InvalidInput

FIELDS_BYTES_MAX = 4096
_PARTS_MAX = 16
_FILENAME_CHARS_MAX = 255


class UploadForm:
    """Call `feed` with each chunk of the body, then `end`. `fields`: the values of the parts without a file, by name.

    Raises HTTPException 400 and 415, InvalidInput.
    """

    def __init__(self, content_type: str) -> None:
        kind, options = parse_options_header(content_type)
        if kind != b"multipart/form-data" or not options.get(b"boundary"):
            raise HTTPException(415)
        self.fields: dict[str, str] = {}
        self.filename: str | None = None
        self._header, self._value = bytearray(), bytearray()
        self._name: str | None = None  # of the field that arrives; None for the file and for what has no name
        self._in_file = self._complete = False
        self._parts = self._fields_bytes = 0
        self._file, self._field = bytearray(), bytearray()
        self._parser = MultipartParser(
            options[b"boundary"],
            {
                "on_part_begin": self._begin_part,
                "on_header_field": lambda data, start, end: self._header.extend(data[start:end]),
                "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
                "on_header_end": self._end_header,
                "on_part_data": self._take,
                "on_part_end": self._end_part,
                "on_end": self._end,
            },
        )

    def feed(self, chunk: bytes) -> bytes:
        """The bytes of the file that this chunk holds."""
        try:
            self._parser.write(chunk)
        except FormParserError:
            raise HTTPException(400) from None
        found = bytes(self._file)
        self._file.clear()
        return found

    def end(self) -> None:
        if not self._complete:
            raise HTTPException(400)
        if self.filename is None:
            raise InvalidInput("The form has no file.", field="file")

    def _begin_part(self) -> None:
        self._parts += 1
        if self._parts > _PARTS_MAX:
            raise HTTPException(400)
        self._name, self._in_file = None, False
        self._field.clear()

    def _end_header(self) -> None:
        if bytes(self._header).lower() == b"content-disposition":
            _, options = parse_options_header(bytes(self._value))
            name = options.get(b"name", b"").decode(errors="replace")
            self._in_file = name == "file" and b"filename" in options
            if self._in_file:
                if self.filename is not None:
                    raise InvalidInput("A form has one file.", field="file")
                shown = options[b"filename"].decode(errors="replace")
                self.filename = "".join(filter(str.isprintable, shown))[:_FILENAME_CHARS_MAX]
            else:
                self._name = name
        self._header.clear()
        self._value.clear()

    def _take(self, data: bytes, start: int, end: int) -> None:
        if self._in_file:
            self._file.extend(data[start:end])
            return
        self._fields_bytes += end - start
        if self._fields_bytes > FIELDS_BYTES_MAX:
            raise HTTPException(400)
        self._field.extend(data[start:end])

    def _end_part(self) -> None:
        if self._name is not None:
            self.fields[self._name] = self._field.decode(errors="replace")

    def _end(self) -> None:
        self._complete = True
