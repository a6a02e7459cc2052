"""Neighbouring texts by a seeded generator: words, encodings, escapes, invisible characters, signs and lengths.

Two texts have as many words, or the same kept text and masked places, as the guarantee of each fill has it. Everything
else differs at random. Many texts have the very words that fixed draws give: an answer that depends on whether a draw
equals the original shows there.
"""

import json
import random
from collections.abc import Sequence

from core.text.mask_words import AllowLists
from core.text.model_fills import slots_of
from core.text.policy import MaskPolicy
from core.text.sanitize import inspect_words
from core.text.segment import sentences, tokenize, visible, windows

PLAIN = ("river", "Maria", "KELLER", "zworykin", "no", "the", "I", "paid", "yes", "Lisbon", "walrus", "accommodation")
FOREIGN = (
    "Müller",
    "Łódź",
    "naïve",
    "東京",
    "мир",
    "שלום",
    "e\u0301te\u0301",
    "ﬁle",
    "ＡＢＣ",
    "ß",
    "İ",
    "don't",
    "don’t",
)
NUMBERS = ("7", "1987", "12:30", "3.14", "1,000", "0x1F", "٣٤", "²", "4711", "99999999999999999999")
SIGNS = ("", "", ".", "!", "?", ",", ";", " -", " …", " 🙂", "🙂", ' "', " <", "&amp;", " %4D", " \\n", "\t", "#", "*")
BETWEEN = (" ", " ", " ", "  ", "\n", "\t", "\u00a0", " \u200b ", "\u2028", "\r\n")
INVISIBLE = ("\u00ad", "\u200b", "\u200d", "\u2060", "\ufeff")
WORDLESS = ("🙂🙂", "!!", "…", "-", "¡¿", "🙂", "***", "—", "(", "%&")
ADDRESSES = (
    "maria.keller@example.org",
    "MARIA.KELLER@EXAMPLE.ORG",
    "a@b.io",
    "jonas_weber+news@mail.example.co.uk",
    "x1@example.com",
)
SENTENCES = (
    "I hated every minute of it.",
    "A masterpiece, funny and moving.",
    "Encrypt it with a longer key.",
    "My graphics card overheats.",
    "The court ruled against the state.",
    "The rocket reached orbit.",
)
NUMBERED = ("4111 1111 1111 1111", "4111111111111111", "5500-0000-0000-0004", "4012888888881881")
_LISTS = AllowLists()


class Texts:
    """Generates texts. `drawn`: words that fixed draws give."""

    def __init__(self, seed: object, drawn: Sequence[str]) -> None:
        self.random = random.Random(repr(seed))
        self._drawn = tuple(drawn)

    def word(self) -> str:
        pick = self.random.random()
        if pick < 0.35:
            word = self.random.choice(self._drawn)
            return self.random.choice((word, word, word.upper(), word.title()))
        return self.random.choice(PLAIN if pick < 0.65 else FOREIGN if pick < 0.85 else NUMBERS)

    def words(self, count: int) -> str:
        """So many words with any signs and spaces between them, and hence the one or other further word."""
        return "".join([self._begin(), *(self._piece() for _ in range(count))])

    def pair(self, count: int) -> tuple[str, str]:
        """Two texts of so many words; of none, two texts of signs."""
        while True:
            found = self._counted(count), self._counted(count)
            if found[0] != found[1]:
                return found

    def _counted(self, count: int) -> str:
        if count == 0:
            return self.random.choice(WORDLESS)
        if self.random.random() < 0.3:  # what fixed draws may give, as it is
            return " ".join([self.random.choice(self._drawn)] * count)
        text = self._begin()
        while (have := word_count(text)) != count:
            longer = text + self._piece()
            text = longer if have < word_count(longer) <= count else text
        return text + self.random.choice(("", "", ".", "\n", " "))

    def _begin(self) -> str:
        return self.random.choice(("", "", '"', "(", "- ", "🙂 "))

    def _piece(self) -> str:
        return self.word() + self.random.choice(SIGNS) + self.random.choice(BETWEEN)

    def hidden(self, text: str) -> str:
        """The text with an invisible character between two visible ones, or as it is."""
        if len(text) < 3 or self.random.random() < 0.4:
            return text
        at = self.random.randrange(1, len(text) - 1)
        return text[:at] + self.random.choice(INVISIBLE) + text[at:]

    def slots(self, policy: MaskPolicy) -> tuple[str, str]:
        """Two texts with the same kept text and the same masked places, by the fills `dp`."""
        while True:
            kept = self.random.choice(
                ("Please write to {} about {}.", "{}", "({}) / {}; thanks!\n", "pay {} from {} — now", "🙂 {}\t{}")
            )
            blanks = kept.count("{}")
            pools = [self.random.choice((ADDRESSES, NUMBERED)) for _ in range(blanks)]
            found = [kept.format(*(self.hidden(self.random.choice(pool)) for pool in pools)) for _ in range(2)]
            if found[0] != found[1] and pattern(found[0], policy) == pattern(found[1], policy):
                return found[0], found[1]

    def sentences(self) -> tuple[str, str]:
        """Two texts of as many sentences, of which one differs."""
        while True:
            count = self.random.choice((1, 2, 3, 6))
            first = [self.words(self.random.choice((1, 4, 12, 40))).strip() + "." for _ in range(count)]
            second = list(first)
            second[self.random.randrange(count)] = self.words(self.random.choice((1, 4, 12, 40))).strip() + "."
            found = " ".join(first), " ".join(second)
            if found[0] != found[1] and len({len(sentences(text)) for text in found}) == 1:
                return found

    def copies(self) -> tuple[str, str]:
        """Two texts of many copies of one sentence, of which one is replaced: all routes agree, or all but one."""
        while True:
            first = [self.random.choice(SENTENCES)] * self.random.choice((3, 16, 40))
            second = list(first)
            second[self.random.randrange(len(first))] = self.random.choice(SENTENCES)
            found = " ".join(first), " ".join(second)
            if first != second and all(len(sentences(text)) == len(first) for text in found):
                return found

    def windows(self, words: int) -> tuple[str, str]:
        """Two texts of as many words, of which one differs, and hence of as many windows."""
        while True:
            count = self.random.choice((1, 5, words, words + 1, 3 * words))
            first = [self.word() for _ in range(count)]
            second = list(first)
            second[self.random.randrange(count)] = self.word()
            found = " ".join(first), " ".join(second)
            if found[0] != found[1] and len({len(windows(text, words)) for text in found}) == 1:
                return found

    def body(self, value: object) -> bytes:
        """JSON with the characters of its strings as they are, or any of them as escapes."""
        return self.escaped(json.dumps(value, ensure_ascii=False)).encode("utf-8", "surrogatepass")

    def escaped(self, source: str) -> str:
        """JSON whose letters and signs inside strings are written as escapes at random."""
        share = self.random.choice((0.0, 0.0, 0.1, 1.0))
        pieces, inside, skip = [], False, 0
        for at, char in enumerate(source):
            if skip:
                skip -= 1
                pieces.append(char)
            elif char == "\\":
                skip = 1
                pieces.append(char)
            elif char == '"':
                inside = not inside
                pieces.append(char)
            elif inside and not _after_unicode(source, at) and self.random.random() < share:
                pieces.append(self._escape(char))
            else:
                pieces.append(char)
        return "".join(pieces)

    def _escape(self, char: str) -> str:
        if char == "/" and self.random.random() < 0.5:
            return "\\/"
        units = char.encode("utf-16-be")
        form = self.random.choice(("\\u{:04x}", "\\u{:04X}"))
        return "".join(form.format(int.from_bytes(units[at : at + 2], "big")) for at in range(0, len(units), 2))


def _after_unicode(source: str, at: int) -> bool:
    """Whether this is a digit of an escape."""
    return any(source[max(0, at - back) : at].startswith("\\u") for back in range(2, 6))


def word_count(text: str) -> int:
    """Of words as the fills count them; -1 where invisible characters make the number a matter of reading."""
    count = len(tokenize(text))
    return count if len(tokenize(visible(text))) == count else -1


def pattern(text: str, policy: MaskPolicy) -> tuple[str, ...]:
    """The kept text around the masked places of the fill `dp`, and between them."""
    found = slots_of(inspect_words(text, policy, _LISTS), policy)
    ends = [0, *(mask.end for mask in found.masks)]
    starts = [*(mask.start for mask in found.masks), len(found.text)]
    return tuple(found.text[end:start] for end, start in zip(ends, starts, strict=True))
