"""Names of HTML: elements, those that do not break a line, those whose content is no markup, and attributes."""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


INLINE = _names(
    """
    a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark q rp rt ruby s samp small
    span strike strong sub sup time tt u var wbr
    """
)
TEXT_ONLY = frozenset({"textarea", "title"})
RAW_TEXT = TEXT_ONLY | {"script", "style", "xmp", "iframe", "noembed", "noframes"}
ELEMENTS = (
    INLINE
    | RAW_TEXT
    | _names(
        """
    address applet area article aside audio base basefont blockquote body br button canvas caption center col
    colgroup datalist dd details dialog dir div dl dt embed fieldset figcaption figure footer form frame
    frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html img input legend li link main map marquee menu meta
    meter nav nobr noscript object ol optgroup option output p param picture plaintext pre progress search
    section select slot source summary svg table tbody td template tfoot th thead tr track ul video
    """
    )
)
# Their values are names of structure, numbers or key words.
KEPT_ATTRIBUTES = _names(
    """
    align autocomplete bgcolor border cellpadding cellspacing charset checked class color cols colspan decoding
    dir disabled enctype for headers height hidden http-equiv id lang loading max maxlength media method min
    minlength name rel role rows rowspan scope selected size step style tabindex target type valign viewbox
    width xmlns
    """
)
FIELDS = _names("input select textarea")
NAMING_TYPES = _names("password email tel")  # of a field, which say what its value is
