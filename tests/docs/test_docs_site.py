"""The documentation as a site (`make docs`): complete, searchable, and without anything from other addresses."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# what a page loads by itself; a link is followed by its reader
_LOADED = re.compile(r"<(?:script|img|iframe|source|link)\b[^>]*?(?:src|href)=[\"']?(?:https?:)?//")
_IN_STYLE = re.compile(r"(?:url\(|@import )[\"']?(?:https?:)?//")


def test_the_navigation_has_every_page_once() -> None:
    pages = re.findall(r"^ +- (?:\w+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(pages) == sorted(str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built without a warning, such as that of a broken link."""
    pytest.importorskip("material", reason="the extra `docs` is not installed")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True))
    return folder


@pytest.mark.slow("documentation")
def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text()
        styles = " ".join(re.findall(r"<style\b.*?</style>", text, re.DOTALL))
        assert not _LOADED.search(text), page.name
        assert not _IN_STYLE.search(styles), page.name
    for sheet in site.rglob("*.css"):
        assert not _IN_STYLE.search(sheet.read_text()), sheet.name


@pytest.mark.slow("documentation")
def test_the_site_finds_the_api_and_explains_terms(site: Path) -> None:
    assert "POST /embed/sentdp" in (site / "search/search_index.js").read_text()
    assert '<abbr title="A MAC over new journal entries' in (site / "operating/ledger.html").read_text()
