"""Months and days of the week as they are written in eight languages."""

from __future__ import annotations

from functools import cache

# (language, names of the months from January); a dot after an abbreviation is not part of it
_MONTHS: tuple[tuple[str, str], ...] = (
    ("en", "january february march april may june july august september october november december"),
    ("en", "jan feb mar apr may jun jul aug sep oct nov dec"),
    ("en", "jan feb mar apr may june july aug sept oct nov dec"),
    ("de", "januar februar märz april mai juni juli august september oktober november dezember"),
    ("de", "jänner feber märz april mai juni juli august september oktober november dezember"),
    ("de", "jan feb mär apr mai jun jul aug sep okt nov dez"),
    ("de", "jan feb mrz apr mai juni juli aug sept okt nov dez"),
    ("de", "januar februar maerz april mai juno juli august september oktober november dezember"),
    ("fr", "janvier février mars avril mai juin juillet août septembre octobre novembre décembre"),
    ("fr", "janvier fevrier mars avril mai juin juillet aout septembre octobre novembre decembre"),
    ("fr", "janv févr mars avr mai juin juil août sept oct nov déc"),
    ("fr", "janv fév mars avr mai juin juil août sept oct nov déc"),
    ("es", "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre"),
    ("es", "enero febrero marzo abril mayo junio julio agosto setiembre octubre noviembre diciembre"),
    ("es", "ene feb mar abr may jun jul ago sep oct nov dic"),
    ("it", "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre"),
    ("it", "gen feb mar apr mag giu lug ago set ott nov dic"),
    ("nl", "januari februari maart april mei juni juli augustus september oktober november december"),
    ("nl", "jan feb mrt apr mei jun jul aug sep okt nov dec"),
    ("pt", "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro"),
    ("pt", "janeiro fevereiro marco abril maio junho julho agosto setembro outubro novembro dezembro"),
    ("pt", "jan fev mar abr mai jun jul ago set out nov dez"),
    ("pl", "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia"),
    ("pl", "stycznia lutego marca kwietnia maja czerwca lipca sierpnia wrzesnia pazdziernika listopada grudnia"),
    ("pl", "styczeń luty marzec kwiecień maj czerwiec lipiec sierpień wrzesień październik listopad grudzień"),
    ("pl", "sty lut mar kwi maj cze lip sie wrz paź lis gru"),
)
ROMAN = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii")

_WEEKDAYS: tuple[tuple[str, str], ...] = (  # from Monday
    ("en", "monday tuesday wednesday thursday friday saturday sunday"),
    ("en", "mon tue wed thu fri sat sun"),
    ("en", "mon tues wed thurs fri sat sun"),
    ("en", "mon tue wed thur fri sat sun"),
    ("de", "montag dienstag mittwoch donnerstag freitag samstag sonntag"),
    ("de", "montag dienstag mittwoch donnerstag freitag sonnabend sonntag"),
    ("de", "mo di mi do fr sa so"),
    ("fr", "lundi mardi mercredi jeudi vendredi samedi dimanche"),
    ("es", "lunes martes miércoles jueves viernes sábado domingo"),
    ("it", "lunedì martedì mercoledì giovedì venerdì sabato domenica"),
    ("nl", "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag"),
    ("pt", "segunda-feira terça-feira quarta-feira quinta-feira sexta-feira sábado domingo"),
    ("pl", "poniedziałek wtorek środa czwartek piątek sobota niedziela"),
    ("pl", "poniedziałek wtorek środę czwartek piątek sobotę niedzielę"),
)


def _index(rows: tuple[tuple[str, str], ...]) -> dict[str, list[tuple[str, tuple[str, ...], int]]]:
    table: dict[str, list[tuple[str, tuple[str, ...], int]]] = {}
    for language, line in rows:
        words = tuple(line.split())
        for place, word in enumerate(words):
            table.setdefault(word, []).append((language, words, place))
    return table


@cache
def _tables() -> tuple[dict[str, list[tuple[str, tuple[str, ...], int]]], ...]:
    return _index(_MONTHS), _index(_WEEKDAYS)


def month_of(word: str, language: str) -> tuple[tuple[str, ...], int] | None:
    """Return the twelve names of the form of `word`, and its place; None if it is not the name of a month."""
    return _found(_tables()[0], word, language)


def weekday_of(word: str, language: str) -> tuple[tuple[str, ...], int] | None:
    """As `month_of`, for the seven days from Monday."""
    return _found(_tables()[1], word, language)


def _found(
    table: dict[str, list[tuple[str, tuple[str, ...], int]]], word: str, language: str
) -> tuple[tuple[str, ...], int] | None:
    rows = table.get(word.casefold())
    if not rows:
        return None
    _, words, place = next((row for row in rows if row[0] == language), rows[0])
    return words, place
