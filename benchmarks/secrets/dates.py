"""Dates in the written forms of eight languages, for the texts of `benchmarks.secrets`."""

from __future__ import annotations

import random
from datetime import date, timedelta

MONTHS = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "nl": "januari februari maart april mei juni juli augustus september oktober november december",
    "pt": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "pl": "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia",
}


def drawn(rng: random.Random, language: str, *, first_year: int = 1925, days: int = 30_000) -> str:
    day = date(first_year, 1, 1) + timedelta(days=rng.randrange(days))
    month = MONTHS[language].split()[day.month - 1]
    short = month[:3]
    numeric = [
        f"{day.day:02d}.{day.month:02d}.{day.year}",
        f"{day.day}.{day.month}.{day.year % 100:02d}",
        f"{day.day:02d}/{day.month:02d}/{day.year}",
        f"{day.day:02d}-{day.month:02d}-{day.year}",
        f"{day.year}-{day.month:02d}-{day.day:02d}",
        f"{day.day:02d}/{day.month:02d}/{day.year % 100:02d}",
    ]
    named = {
        "en": [
            f"{day.day} {month} {day.year}",
            f"{month} {day.day}, {day.year}",
            f"{short} {day.day}, {day.year}",
            f"{day.day}{_ordinal(day.day)} {month} {day.year}",
            f"{day.day:02d}-{short.upper()}-{day.year}",
            f"{month} {day.day}{_ordinal(day.day)}, {day.year}",
        ],
        "de": [f"{day.day}. {month} {day.year}", f"{day.day}.{month} {day.year}"],
        "fr": [f"{'1er' if day.day == 1 else day.day} {month} {day.year}"],
        "es": [f"{day.day} de {month} de {day.year}", f"{day.day} de {month} del {day.year}"],
        "it": [f"{day.day} {month} {day.year}", f"{'1°' if day.day == 1 else day.day} {month} {day.year}"],
        "nl": [f"{day.day} {month} {day.year}"],
        "pt": [f"{day.day} de {month} de {day.year}", f"{day.day} {month} {day.year}"],
        "pl": [
            f"{day.day} {month} {day.year} r.",
            f"{day.day} {month} {day.year} roku",
            f"{day.day} {month} {day.year}",
        ],
    }[language]
    return rng.choice(numeric if rng.random() < 0.5 else named)


def _ordinal(day: int) -> str:
    return "th" if 11 <= day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
