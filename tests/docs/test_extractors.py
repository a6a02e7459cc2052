"""The recipe of docs/guide/documents.md, on small files."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("docx")
pytest.importorskip("pypdf")

from docx import Document

PAGE = (Path(__file__).parents[2] / "docs/guide/documents.md").read_text()
RECIPE: dict[str, Any] = {}
exec(PAGE.split("```python\n")[1].split("```")[0], RECIPE)
pdf_text, docx_html = RECIPE["pdf_text"], RECIPE["docx_html"]


def pdf(text: str) -> bytes:
    stream = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET".encode() if text else b""
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R"
        b" /Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
    ]
    out, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"xref\n0 5\n0000000000 65535 f \n%strailer << /Size 5 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF"
    return out + end % (table, len(out))


def test_the_text_of_a_pdf_and_a_page_without_text(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf("Mail jane@example.org"))
    assert pdf_text(str(path)) == "Mail jane@example.org"
    path.write_bytes(pdf(""))
    with pytest.raises(ValueError, match="no text"):
        pdf_text(str(path))


def test_the_paragraphs_and_tables_of_a_word_document(tmp_path: Path) -> None:
    document = Document()
    document.add_paragraph("Mail <jane@example.org>")
    document.add_table(1, 2).rows[0].cells[1].text = "5"
    document.save(str(tmp_path / "a.docx"))
    assert docx_html(str(tmp_path / "a.docx")) == (
        "<p>Mail &lt;jane@example.org&gt;</p>\n<table><tr><td></td><td>5</td></tr></table>"
    )
