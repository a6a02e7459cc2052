"""The frequent words of the eight languages, which are rarely names. Frequent names are among them: the lists are in
small letters."""

from functools import lru_cache

FREQUENT_WORDS, LISTED_WORDS = 5_000, 20_000
# No surrogate is one of so many words of its language. Where the lists of names are short, there are fewer words, so
# that enough names remain.
_MANY_NAMES = dict.fromkeys(("de", "es", "fr", "it", "nl"), LISTED_WORDS)
ORDINARY_WORDS = {**_MANY_NAMES, "en": 10_000, "pl": 10_000, "pt": 5_000}
_ENGLISH_WORDS_MAX = 10_000  # that no surrogate of another language may be


def is_frequent(word: str, language: str) -> bool:
    """Whether a word is frequent in the language or in English, in any letter case."""
    folded = word.casefold()
    return folded in _words(language, FREQUENT_WORDS) or folded in _words("en", FREQUENT_WORDS)


def is_ordinary(word: str, language: str) -> bool:
    """Whether a model may use a word that stands for nothing else: as `is_frequent`, of more words."""
    folded, size = word.casefold(), ORDINARY_WORDS[language]
    return folded in _words(language, size) or folded in _words("en", min(size, _ENGLISH_WORDS_MAX))


def names_nobody(word: str, language: str) -> bool:
    """Whether a word is one of the `LISTED_WORDS` most frequent of the language, and no given name of a list."""
    from core.text.surrogates.names import is_given

    return word.casefold() in _words(language, LISTED_WORDS) and not is_given(word, language)


def is_no_name(word: str, language: str) -> bool:
    """As `names_nobody`, and the word is no surname of the language's list."""
    from core.text.surrogates.names import is_surname

    return names_nobody(word, language) and not is_surname(word, language)


def names_somebody(word: str, language: str) -> bool:
    """Whether a word is a given name of the language's list, and frequent neither in the language nor in English."""
    from core.text.surrogates.names import is_listed_given

    return is_listed_given(word, language) and not is_frequent(word, language)


def names_no_firm(word: str, language: str) -> bool:
    """Whether a word is frequent in the language and no surname of its list."""
    from core.text.surrogates.names import is_surname

    return word.casefold() in _words(language, FREQUENT_WORDS) and not is_surname(word, language)


@lru_cache(maxsize=32)
def _words(language: str, size: int) -> frozenset[str]:
    import wordfreq

    return frozenset(word.casefold() for word in wordfreq.top_n_list(language, size))
