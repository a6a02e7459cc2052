"""Hooks of mkdocs for `make docs`: pages that are generated, links to files beside docs/, and terms of the glossary.

The API pages come from the OpenAPI document of a gateway with the default settings. A file beside docs/ that a page
links to, such as NOTICE, becomes a file of the site. The first use of a term on a page shows its meaning.
"""

import re
from pathlib import Path, PurePosixPath
from typing import Any

from api_pages import pages as api_pages
from generated_client import api_document
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
BESIDE = "beside"  # the folder of the site for files that are not in docs/
API = "reference/api"
_LINK = re.compile(r"(?<=\]\()([^)\s#]+)")
_TERM = re.compile(r"^\| ([\w -]+) \| (.+) \|$", re.MULTILINE)
_MARK = re.compile(r"^ *<!--.*?-->\n", re.MULTILINE)
_ABBREVIATION = re.compile(r'<abbr title="[^"]*">([^<]*)</abbr>')


def glossary() -> dict[str, str]:
    """The meaning of each term of docs/glossary.md, as plain text."""
    rows = dict(_TERM.findall((ROOT / "docs/glossary.md").read_text()))
    return {
        term: re.sub(r"\[([^\]]*)\]\([^)]*\)|`", r"\1", meaning) for term, meaning in rows.items() if term != "term"
    }


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Build the API pages, and put them into the navigation."""
    made = api_pages(api_document())
    config.extra["api_pages"] = made
    _fill(config.nav, [f"{API}/{name}" for name in made])
    return config


def _fill(nav: Any, names: list[str]) -> None:
    for entry in nav:
        for title, value in entry.items() if isinstance(entry, dict) else ():
            if value == f"{API}/":
                entry[title] = names
            elif isinstance(value, list):
                _fill(value, names)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, text in config.extra.pop("api_pages").items():
        files.append(File.generated(config, f"{API}/{name}", content=text))
    waiting = [ROOT / "docs" / file.src_uri for file in files.documentation_pages() if file.generated_by is None]
    seen = set[Path]()
    while waiting:
        page = waiting.pop()
        for target in _targets(page) - seen:
            seen.add(target)
            if target.suffix == ".md":
                waiting.append(target)
            uri = f"{BESIDE}/{target.relative_to(ROOT).as_posix()}"
            files.append(File.generated(config, uri, abs_src_path=str(target)))
    return files


def _targets(page: Path) -> set[Path]:
    """The files beside docs/ that a page links to."""
    linked = {(page.parent / each).resolve() for each in _LINK.findall(page.read_text()) if "://" not in each}
    return {each for each in linked if each.is_file() and not each.is_relative_to(ROOT / "docs")}


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    source = page.file.src_uri
    beside = source.startswith(f"{BESIDE}/")
    place = ROOT / (source.removeprefix(f"{BESIDE}/") if beside else f"docs/{source}")

    def moved(link: re.Match[str]) -> str:
        target = (place.parent / link[1]).resolve()
        if "://" in link[1] or not target.is_relative_to(ROOT):
            return link[1]
        inside = target.is_relative_to(ROOT / "docs")
        uri = target.relative_to(ROOT / "docs").as_posix() if inside else f"{BESIDE}/{target.relative_to(ROOT)}"
        return str(PurePosixPath("/".join([".."] * source.count("/")) or ".") / uri)

    if not source.startswith(f"{API}/"):
        markdown = _LINK.sub(moved, _MARK.sub("", markdown))
    if beside or source.startswith("adr/"):
        page.meta["search"] = {"boost": 0.3}  # after the pages that say how to use the gateway
    if source == "glossary.md":
        return markdown
    return markdown + "\n\n" + "".join(f"*[{term}]: {meaning}\n" for term, meaning in glossary().items())


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    seen = set[str]()

    def first(found: re.Match[str]) -> str:
        new = found[1] not in seen
        seen.add(found[1])
        return found[0] if new else found[1]

    return _ABBREVIATION.sub(first, html)
