"""Pages that jobs write: one HTML file without scripts or links, light or dark as the reader's system is.

Charts are SVG, coloured by the page's style sheet and readable without colour. Whatever comes from a caller is escaped.
"""

from collections.abc import Sequence
from html import escape

CHARS_MAX = 14
SERIES_MAX = 6  # colours of the style sheet


def short(text: str, *, chars_max: int = CHARS_MAX) -> str:
    """Shorten to at most `chars_max` characters and escape for HTML."""
    return escape(text if len(text) <= chars_max else text[: chars_max - 1] + "…")


def picture(drawn: str, *, width: int, height: int, wide: bool = False) -> str:
    """Return SVG elements as a picture. `wide`: at most `width` pixels wide."""
    style = f' style="max-width:{width}px"' if wide else ""
    return f'<svg viewBox="0 0 {width} {height}" role="img"{style}>{drawn}</svg>'


STYLE = """
:root { color-scheme: light dark; --ink: #1d2330; --soft: #5b6475; --paper: #fff; --card: #f5f6f9; --edge: #d9dde6;
  --free: #1b7a4b; --paid: #b3401f; --mark: #111; --c0: #3565c4; --c1: #d98a1f; --c2: #2c9a77; --c3: #9a4fb3;
  --c4: #c4485f; --c5: #6b7280 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e7eaf1; --soft: #a2abbd; --paper: #14171e; --card: #1d222c; --edge: #333b4a;
    --free: #5ccb95; --paid: #f08a66; --mark: #fff; --c0: #7fa6f5; --c1: #f2b45c; --c2: #62cfa9; --c3: #c98fe0;
    --c4: #f08a9c; --c5: #9aa3b2 }
}
@media print { :root { color-scheme: light; --ink: #000; --soft: #444; --paper: #fff; --card: #fff; --edge: #bbb;
    --free: #1b7a4b; --paid: #b3401f; --mark: #111; --c0: #3565c4; --c1: #d98a1f; --c2: #2c9a77; --c3: #9a4fb3;
    --c4: #c4485f; --c5: #6b7280 }
  .card, figure, tr { break-inside: avoid }
  h2, h3 { break-after: avoid }
}
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif }
main { max-width: 1080px; margin: 0 auto; padding: 32px 20px 64px }
h1 { font-size: 26px; margin: 0 }
h2 { font-size: 18px; margin: 36px 0 8px }
h3 { font-size: 14px; margin: 0 0 4px; font-weight: 600; overflow-wrap: anywhere }
p { margin: 6px 0; max-width: 76ch }
figure { margin: 0; min-width: 0 }
ul { margin: 6px 0; padding-left: 20px }
dl { display: grid; margin: 0; grid-template-columns: auto 1fr; gap: 4px 16px }
dt { color: var(--soft) }
dd { margin: 0 }
table { border-collapse: collapse }
td, th { padding: 3px 14px 3px 0; text-align: left; border-bottom: 1px solid var(--edge); overflow-wrap: anywhere }
th { color: var(--soft); font-weight: 400; vertical-align: bottom }
.number { text-align: right; overflow-wrap: normal }
.soft { color: var(--soft) }
.grid { display: grid; gap: 14px; grid-template-columns: repeat(auto-fill, minmax(280px, 1fr)) }
.two { display: grid; gap: 14px; grid-template-columns: repeat(auto-fit, minmax(300px, 1fr)) }
.two + .two { margin-top: 14px }
.card { background: var(--card); border: 1px solid var(--edge); border-radius: 8px; padding: 12px 14px }
.free { border-left: 4px solid var(--free) }
.paid { border-left: 4px solid var(--paid) }
.key { display: inline-block; margin-right: 14px }
.key svg { display: inline; width: 12px; height: 12px; vertical-align: -1px }
svg { width: 100%; height: auto; display: block }
svg text { font: 11px system-ui, sans-serif; fill: var(--soft) }
.s0 { fill: var(--c0) }
.s1 { fill: var(--c1) }
.s2 { fill: var(--c2) }
.s3 { fill: var(--c3) }
.s4 { fill: var(--c4) }
.s5 { fill: var(--c5) }
.mark { stroke: var(--mark); stroke-width: 2 }
.rule { stroke: var(--edge) }
.curve { fill: none; stroke: var(--c0); stroke-width: 2 }
.wide { overflow-x: auto; margin-bottom: 22px }
td small { display: block; white-space: nowrap }
pre { font-size: 13px; white-space: pre-wrap; overflow-wrap: anywhere; margin: 6px 0 }
.heat { fill: var(--c0); stroke: var(--edge); stroke-width: .5 }
"""


def document(title: str, sections: Sequence[str]) -> str:
    """Return a whole page, without scripts or links. `title` is text, `sections` are HTML."""
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>"
    )
    return f"{head}<body><main>{''.join(sections)}</main></body></html>\n"


def number_table(heads: Sequence[str], lines: Sequence[tuple[Sequence[str], Sequence[float]]], *, digits: int) -> str:
    """Return a table. Each line has texts, then numbers, and as many cells as `heads`."""
    texts = len(heads) - len(lines[0][1])
    top = "".join(f"<th{side(i >= texts)}>{escape(head)}</th>" for i, head in enumerate(heads))
    rows = (
        "".join(f"<td>{escape(name)}</td>" for name in names)
        + "".join(f"<td{side(True)}>{value:.{digits}f}</td>" for value in values)
        for names, values in lines
    )
    return f"<table><tr>{top}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def side(number: bool) -> str:
    return ' class="number"' if number else ""


def key(series: Sequence[str]) -> str:
    """The legend: the meaning of the colours."""
    keys = (
        f'<span class="key"><svg viewBox="0 0 12 12"><rect class="s{i}" width="12" height="12"/></svg>'
        f" {short(name, chars_max=30)}</span>"
        for i, name in enumerate(series)
    )
    return f"<p>{''.join(keys)}</p>"


def figure(title: str, chart: str) -> str:
    """A chart with its title, which is text."""
    return f'<figure class="card"><h3>{escape(title)}</h3>{chart}</figure>'


def items(texts: Sequence[str]) -> str:
    """Return a list. `texts` are HTML."""
    return "".join(f"<li>{text}</li>" for text in texts)
