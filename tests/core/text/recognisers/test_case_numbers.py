"""CASE_NUMBER: numbers of cases after their words, by their forms, and after `no.` alone; and other numbers."""

from recogniser_kit import finds, shown
from table_kit import marked, rows, texts

AFTER_A_WORD = r"""
application no. «18403/91» || Application Nos. «2210/92» || Az. «5 C 214/19» || Aktenzeichen: «12 O 345/20»
Az.: «123-45.678/19» || Geschäftszeichen «4711-0815/23» || Beschwerde Nr. «36244/06» || Case No. «2:19-cv-01234-ABC»
the appeal, docket no. «19-11472» || court file «CV-19-4471» || Claim and case number «QB-2019-001234»
Case «C-131/12» || requête n° «45217/06» || RG n° «19/01234» || pourvoi n° «18-12.345» || dossier n° «21/04417»
affaire n° «2019/3342» || autos «123/2019» || recurso n.º «4412/2018» || diligencias previas «1180/2017»
demanda núm. «30141/04» || R.G. «1234/2019» || procedimento penale n. «1234/18» || ricorso n. «22015/10»
Geschäftszeichen «III-4 U 88/16» || Unser Zeichen: «AB-2291/23» || Az. «L 9 AS 221/18» || GZ: «2 Ob 118/19x»
Expediente: «EXP-2020-1187» || zaaknr. «AWB 18/2291» || zaaknummer: «10119922 CV EXPL 22-881» || case=«2022-LA-004411»
case_no,filed\n«19-CR-00442»,2019 || fascicolo «4471/2020» || zaaknummer «C/13/123456 / HA ZA 15-123»
parketnummer «13-123456-18»
verzoekschrift nr. «58802/12» || zaak nr. «200.123.456/01» || processo n.º «123/19.4TBLSB»
processo nº «0001234-56.2019.8.26.0100» || queixa n.º «30218/11» || inquérito «4471/2019» || sygn. akt «I C 123/19»
sygnatura akt: «II K 45/18» || skarga nr «12345/06» || w sprawie o sygnaturze «IV CSK 412/17»
"""
BY_FORM = """
5 C 214/19 || 12 O 345/20 || 2 BvR 1187/11 || VI ZR 12/18 || 3 StR 271/09 || 17 Ca 4410/21 || 4 K 911/15
61 Js 2201/18 || XII ZB 88/20 || 12 AS 4471/18 || II K 45/18 || IV CSK 412/17 || III CZP 7/19 || I ACa 804/16
II SA/Wa 1188/19 || 0001234-56.2019.8.26.0100 || 1180/18.0PTLSB.L1 || 1:21-cr-00175-TJK || 2:19-cv-01234 || 19-cv-4471
18 Civ. 4471 || ECLI:NL:RBAMS:2019:1234 || ECLI:DE:BGH:2018:120618U2STR45.18.0 || C/13/123456 / HA ZA 15-123
13/123456-18 || HA ZA 15-123
"""
BARE = """
The case began with an application (no. «18403/91») against Utopia. || Roe v. Utopia, no. «36244/06», 12 May 2001
see no. «21272/12» || Roe gegen Utopien, Nr. «30141/04» || Roe c. Utopie (n° «45217/06»)
Roe contro Utopia, n. «22015/10» || Roe contra Utopía, núm. «4412/18» || Roe tegen Utopia, nr. «58802/12»
Roe przeciwko Utopii, nr «12345/06» || Roe contra a Utópia, n.º «30218/11»
"""
NONE = """
law no. 675/96 || legge n. 675/96 || loi n° 675/96 || ley n.º 675/96 || Gesetz Nr. 675/96 || ustawa nr 675/96
Regulation (EC) No 1234/2008 || Directive 95/46/EC || Decreto-Lei n.º 446/85 || Legge 31 dicembre 1996, n. 675/96
the season 2018/19 || no. 2 || invoice no. 2024/15 || bus no. 102/03 || the flat no. 123/45 || version no. 12.4.1
the fiscal years 2018/19 and 2019/20 || no. 12 of 300 || on 12/05/2019 || No. 10 Downing Street || page 12/45
it costs 5 C or 214/19 of a pound || 24/7 support || 9/11 || a ratio of 100/20 || blood pressure 120/80 || 4 K TV
application CVE-2024-30941 || in any case 2019 was cold || the application has 12345 users || application id 4829173
process id 48291
procedimiento de 12 pasos || the case of 1200 apples || /proc/12345/status || HTTP 404 (n. 3) || World War II
"""


def test_a_number_after_a_word_for_a_case_is_found() -> None:
    for case, number in marked(AFTER_A_WORD):
        for frame in ["{}", "> {}\n"] if "\n" in case else ["{}", "See {}.", "({})", "{}, 12 May", "> {}\n"]:
            text = frame.format(case)
            assert finds("CASE_NUMBER", text) == [number], text


def test_a_number_of_a_form_that_only_courts_have_is_found_alone() -> None:
    for number in texts(BY_FORM):
        for frame in ["{}", "The file {} was closed.", "Urteil vom 3. Mai ({})", "a;{};b"]:
            assert finds("CASE_NUMBER", frame.format(number)) == [number], frame.format(number)


def test_a_number_after_no_alone_is_found_where_no_other_thing_has_it() -> None:
    for text, number in marked(BARE):
        assert finds("CASE_NUMBER", text) == [number], text
    assert finds("CASE_NUMBER", "Roe and Doe v. Utopia, nos. 18403/91, 2210/92 and 977/93") == [
        *("18403/91", "2210/92", "977/93")
    ]


def test_numbers_of_other_things_are_no_cases() -> None:
    for text in texts(NONE):
        assert finds("CASE_NUMBER", text) == [], text


def test_formats_have_cases() -> None:
    mark = "[CASE_NUMBER]"
    for format_name, text in rows(r"""
        json | {{"case_number": "{}", "court": "x"}} || json | {{"aktenzeichen": "{}"}}
        csv | name,zaaknummer\nx,{}\ny,{}\n || csv | sygnatura akt;sąd\n{};x\n{};y\n
        log | 2024-05-03 10:00:00 INFO closed case no. {} || text | clerk: the case number?\nroe: Az. {}\n
    """):
        assert shown(text.format("12 O 345/20", "12 O 345/20"), format_name) == text.format(mark, mark), text
