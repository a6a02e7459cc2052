"""Firms, addresses and persons that the words beside them show."""

from table_kit import plain, texts

from core.text.mask_entity import Tagged
from core.text.masks import Recognised
from core.text.policy import MaskPolicy
from core.text.recognisers.named_forms import named_forms, trimmed
from core.text.sanitize import inspect

FOUND = """
«Rook Joinery», sole trader || to «Aqua Fitness Clubs» from || with «Swift Parcel Movers», who
('«Old Mill Vets»', 'Penryn')
ran the «Blue Anchor Chandlery» for years || The «Gillespie Heating» van || presso la «Ceramiche Fiordaliso» di
z «Koła Łowieckiego Dzik» || bei «Autohaus Krämer & Söhne» in || die «Bäckerei Schmidt» hat
la «Boulangerie Le Goff» est
en «Talleres Ibarra» de || «Bakkerij Hoekstra» levert || na «Padaria Boa Vista» || w «Piekarni Kłos» kupili
voor «Turfkade 88-III, 1018 KJ Delft» loopt || «Rua das Palmeiras, 410, ap. 32, Campinas/SP, CEP 13015-120». Ré
bei der, «am deich 12» || «calle Mayor, 12, 3º B, 28013 Madrid» || «12 rue des Lilas, 75011 Paris»
«ul. Długa 9 m. 4, 00-950 Sopot»
in «via Garibaldi 12, int. 4, 20121 Milano» || «4 Birch Close, Flat 2, Leeds LS1 4AP»
«Lindenstraße 4, 10969 Berlin», dort
na «rua Augusta» || przy «ulicy Świdnickiej» || in der «Bundesallee» || t.n.v. «F. Oosterwijk». De
Herr «Winter» kommt
Zeuge «Bolko Freiherr von Tessen» ist || pan «Wilk» był || account holder: «Odalys Brant»
a nombre de «P. Quiroga» || Mrs «May»
"""
STAYS = """
The Central Heating is off. || Mobile Hairdressers wanted || We love the Bakery. || Home Insurance pays. || New Kitchens
Farmacia de Guardia abierta || Farmacia Comunale || Am Samstag 12 Kinder || AM WOCHENENDE. VON FREITAG 22 UHR
im Januar 12 Uhr
place 12 orders || le 12 rue || Raum 12 || parkplatz 12 || R.G. n. 3381 || Le Tour 2024
über die Umgehungsstraße || 3 Main points
Mr Speaker || Pani Dyrektor || Frau Professor || au nom de la République || in the name of God || pan dyrektor
"""


def found(text: str) -> str:
    """Return the text with the outermost forms between `«` and `»`."""
    nothing = Tagged(text, frozenset({"PERSON", "LOCATION", "ORGANIZATION"}), ())
    policy = MaskPolicy(entities=("PERSON", "LOCATION", "ORGANIZATION"))
    for mask in reversed(inspect(text, policy, None, Recognised(None, nothing)).masks):
        text = f"{text[: mask.start]}«{text[mask.start : mask.end]}»{text[mask.end :]}"
    return text


def test_firms_addresses_and_persons_are_found_by_the_words_beside_them() -> None:
    assert [found(plain(text)) for text in texts(FOUND) if found(plain(text)) != text] == []
    assert [found(text) for text in texts(STAYS) if found(text) != text] == []


def test_a_given_name_of_the_language_is_found_where_it_is_no_frequent_word() -> None:
    text = "Op zaterdag vroeg Joppe of de sleutel van het hek nog bij de buren ligt."
    assert [text[form.start : form.end] for form in named_forms(text, "nl")] == ["Joppe"]
    assert [*named_forms(text, "unknown")] == []


def test_words_in_small_letters_at_the_ends_of_a_name_are_no_part_of_it() -> None:
    for text, name, language in [
        ("mari youenn", "youenn", "fr"), ("tante riet", "riet", "nl"), ("weil Lukasz", "Lukasz", "de"),
        ("de Kersaint", "de Kersaint", "fr"), ("quim zé", "quim zé", "pt"), ("Anna Berg", "Anna Berg", "de"),
    ]:  # fmt: skip
        assert text[slice(*trimmed(text, 0, len(text), language))] == name
