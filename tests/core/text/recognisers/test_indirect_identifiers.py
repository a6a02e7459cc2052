"""What identifies a person together with other facts, in eight languages, and words and numbers like it that stay."""

import time

from recogniser_kit import finds
from table_kit import marked, texts

from core.text.languages import LANGUAGES
from core.text.mask_entity import Tagged
from core.text.masks import Recognised
from core.text.policy import DEFAULT_ENTITIES, INDIRECT, PROFILES, MaskPolicy
from core.text.sanitize import sanitize

FOUND = {
    "NATIONALITY": """
en: She is a «Portuguese» citizen. || en: He is «Polish». || en: Two «Kurds» came. || de: Ihr Nachbar ist «Norweger».
de: Er hat einen «polnischen» Pass. || de: eine «österreichische» Köchin || fr: Elle est «algérienne» par sa mère.
fr: deux amis «grecs» || es: Mi vecina es «española». || es: los obreros «portugueses»
it: Il suo collega è «svedese». || it: due amiche «tedesche» || nl: Zij heeft de «Nederlandse» pas.
pl: Ma «czeskiego» sąsiada. || pl: z «francuskimi» gośćmi || pt: A vizinha é «alemã». || pt: dois «japoneses»
""",
    "OCCUPATION": """
en: Her father was a «taxi driver» once. || en: the «Agent» of the firm || en: She is «head» of the school.
en: Ask their «Director», please. || de: Zwei «Anwältinnen» kamen. || de: Er ist «Tierarzt». || de: Er ist «Koch».
fr: Les «infirmières» attendent. || fr: Elle est «traductrice». || es: Trabaja como «enfermera» en casa.
es: los «carpinteros» || it: Parla con gli «infermieri». || it: È «scrittrice». || nl: Hij werd «loodgieter».
nl: twee «timmermannen» || pl: Poszła do «lekarza». || pl: z «nauczycielką» || pt: Ela é «advogada».
pt: dois «pescadores»
""",
    "RELATIONSHIP": """
en: He lives with his «mother-in-law» now. || en: She has two «nephews». || de: Er lebt mit seiner «Schwester».
de: Ihre «Töchter» kamen. || fr: Elle voit sa «belle-mère». || fr: ses «cousines» || es: Vive con su «hermana».
es: dos «sobrinos» || it: Abita con sua «sorella». || nl: Hij woont bij zijn «zus». || nl: twee «tantes»
pl: Mieszka z «siostrą». || pl: od «dziadka» || pt: Mora com a «irmã». || pt: três «sobrinhas»
""",
    "EDUCATION": """
en: He has a «master's degree» now. || de: Sie hat das «Abitur». || fr: Il a le «baccalauréat».
es: Tiene la «licenciatura». || it: Ha preso la «laurea». || nl: Zij haalde haar «vwo-diploma».
pl: Zdała «maturę». || pt: Terminou a «licenciatura».
""",
    "AFFILIATION": """
en: She works at the «Riverside Community College» now. || en: a cell in «Riverside prison»
en: She worked at the «Ministry of Health». || en: Ms Roe, of the «Supreme Court», said so.
de: Er lehrt an der «Universität Oldenau». || fr: Il étudie au «Lycée Marguerite Vallon».
es: Estudia en la «Universidad de Monteverde». || it: Lavora al «Liceo Bellandi».
nl: Zij werkt bij «Ziekenhuis Oosterveld». || pl: Studiuje na «Uniwersytecie Zielonogórskim».
pt: Trabalha no «Hospital de Santa Rita».
""",
    "QUANTITY": """
en: They paid «EUR 4,310» for it. || en: A plot of «seven hectares» there. || en: It costs «about $5 million» now.
en: He has «three children» now. || en: He pays «600 Polish zlotys (PLN)» a year. || de: Es kostet «4.310,50 Euro».
fr: Il doit «900 euros» à Luc. || es: Debe «40 dólares» ya. || it: Un campo di «12 ettari» qui.
nl: Een boot van «9 meter» lang. || pl: Zapłacił «350 złotych» za to. || pt: Um terreno de «80 hectares» ali.
""",
    "DURATION": """
en: It lasted «two years» there. || en: She is «22 years old». || en: He, «aged 22», left.
en: «four and a half months» || de: Er blieb «drei Monate» dort. || de: «im Alter von 22 Jahren»
fr: Il a attendu «six semaines». || fr: Luc, «âgé de 22 ans» || es: Esperó «cinco semanas».
it: Ha lavorato «dieci anni» lì. || nl: Zij wachtte «twaalf weken». || pl: Czekał «trzy miesiące».
pt: Morou lá «quatro anos».
""",
    "YEAR": """
en: She was born in «1984». || en: in the «summer of 1984» || en: the «1980s» || de: Er kam «1991» an.
de: «Ende 1991» || fr: Depuis «1975» il vit ici. || es: Nació en «1968». || it: Nel «1959» partì.
nl: In «2003» trouwde zij. || pl: W «1987» wyjechał. || pt: Em «1996» voltou.
""",
    "REFERENCE_NUMBER": """
en: plots nos. «511, 513 and 44/2» || en: user «GX-ID-1048576» || en: It is 663, not «663855601».
de: Flurstück Nr. «44/2» || fr: la parcelle n° «118» || es: la parcela núm. «118» || it: particella n. «118»
nl: perceel nr. «118» || pl: działka nr «118/4» || pt: o lote n.º «118»
""",
}
LEFT = {
    "NATIONALITY": """
You can polish the table. || the turkey is ready || Das ist nicht wahr. || Elle est contente. || a pair of fins
""",
    "OCCUPATION": """
The driver of the printer is old. || Das koch ich gern. || Le serveur web redémarre. || The agent is new.
head over there || Head north. || La música suena. || Kochen macht Spaß. || A física moderna
""",
    "RELATIONSHIP": """
Das ist nicht gut. || El país es grande. || Do not mutter. || Es ist nur ein Haus. || Marie arrive. || Mamy czas.
i generi letterari || Het is enkel zo. || Nora chegou.
""",
    "EDUCATION": "The degree of heat is high. || Er hat ein Haus. || La licence du logiciel",
    "AFFILIATION": """
She goes to school. || The court rose. || Court is open. || Das Gericht schmeckt. || the Court of Appeal held
the Ministry of Health said || la Cour de cassation || al Tribunal Supremo || przez Sąd Najwyższy || The prison is old.
""",
    "QUANTITY": "page 12 || version 4.2 || Section 5 applies || seven of them || call 555 now || in 1984 the owners",
    "DURATION": "unit 12 || the days of old || chapter two || Year 2 || the week after || a page of 22",
    "YEAR": "1984-05-03 || unit 19845 || EUR 1984.50 || $1984 || v2.1984 || 1700",
    "REFERENCE_NUMBER": """
Protocol No. 11 || law no. 675/96 || loi n° 6759 || Gesetz Nr. 6754 || no. 3 || UTF-8 || 1000000 || 2024-05-01T10:00:00
EUR 4310 || 12.5 || H2O
""",
}
BODIES = frozenset({"ORGANIZATION", "PERSON"})


def masked(text: str, kind: str, name: str, *others: str) -> str:
    """The text with `name`, which a tagger takes for a `kind`, and with the finds of the types `others`."""
    start = text.index(name)
    tagged = Tagged(text, BODIES, ((start, start + len(name), kind, 0.9),))
    return sanitize(
        text, MaskPolicy(entities=(kind, *others)), "class_marker", recognised=Recognised(None, tagged)
    ).text


def test_they_are_found_in_every_language() -> None:
    assert FOUND.keys() == LEFT.keys() == set(INDIRECT)
    for entity in FOUND:
        table = [(*text.split(": ", 1), value) for text, value in marked(FOUND[entity])]
        assert {language for language, _, _ in table} == set(LANGUAGES)
        for _, text, value in table:
            assert finds(entity, text) == [value], text


def test_words_and_numbers_like_them_stay() -> None:
    for entity in LEFT:
        for text in texts(LEFT[entity]):
            assert finds(entity, text) == [], (entity, text)


def test_they_belong_to_one_profile_and_not_to_the_default_one() -> None:
    assert not set(INDIRECT) & set(DEFAULT_ENTITIES)
    assert [name for name, entities in PROFILES.items() if set(INDIRECT) & set(entities)] == ["anonymise"]
    assert set(PROFILES["hipaa"]) < set(PROFILES["anonymise"])


def test_a_name_with_such_a_word_in_it_is_one_find() -> None:
    assert masked("I met Anna Baker, a baker.", "PERSON", "Anna Baker", "OCCUPATION") == (
        "I met [PERSON], a [OCCUPATION]."
    )
    assert masked("He reads Rook University News.", "ORGANIZATION", "Rook", "AFFILIATION") == (
        "He reads [AFFILIATION]."
    )


def test_a_public_body_without_a_name_is_no_organisation_beside_affiliations() -> None:
    text = "It went to the {}, and then home."
    for body in ("Court of Appeal", "Polish Government", "Bundesverwaltungsgericht", "Cour de cassation"):
        assert masked(text.format(body), "ORGANIZATION", body) == text.format("[ORGANIZATION]")
        assert masked(text.format(body), "ORGANIZATION", body, "AFFILIATION") == text.format(body)
    named = "Rook Joinery"
    assert masked(text.format(named), "ORGANIZATION", named, "AFFILIATION") == text.format("[ORGANIZATION]")
    worked = "She worked as a clerk at the {}."
    assert masked(worked.format("Supreme Court"), "ORGANIZATION", "Supreme Court", "AFFILIATION") == (
        worked.format("[ORGANIZATION]")
    )


def test_long_texts_of_one_kind_take_linear_time() -> None:
    for entity, part in (
        ("QUANTITY", "one-"), ("QUANTITY", "1.000 "), ("QUANTITY", "EUR 1 "), ("DURATION", "two and "), ("YEAR", "1"),
        ("AFFILIATION", "Court of "), ("AFFILIATION", "Aa "), ("OCCUPATION", "head of "), ("REFERENCE_NUMBER", "A1-"),
        ("REFERENCE_NUMBER", "no. 1, "),
    ):  # fmt: skip
        start = time.perf_counter()
        finds(entity, part * (20_000 // len(part)))
        assert time.perf_counter() - start < 3, (entity, part)
