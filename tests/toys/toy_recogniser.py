"""A toy recogniser: badge numbers such as EMP-123456."""

import regex

from core.text.recogniser import Pattern, Recogniser, context_of, pattern_scan

BADGE = (Pattern(regex.compile(r"(?<![\w-])EMP-\d{6}(?![\w-])"), 0.6),)


def recognisers() -> tuple[Recogniser, ...]:
    return (Recogniser("TOY_BADGE", pattern_scan(BADGE), context_of(("badge", "employee")), digits_min=6),)
