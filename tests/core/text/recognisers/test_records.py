"""Dates of birth that answer a question, and rows of records without headings."""

import re

from recogniser_kit import finds, shown
from table_kit import plain, texts

QUESTIONS = """
What is your date of birth? || Date of birth? || When were you born? || May I have your DOB? || Your birthday?
Please confirm your date of birth. || Wann sind Sie geboren? || Wie lautet Ihr Geburtsdatum?
Bitte nennen Sie Ihr Geburtsdatum. || Quelle est votre date de naissance ? || Quand êtes-vous né ?
¿Cuál es su fecha de nacimiento? || ¿Cuándo nació usted? || Qual è la sua data di nascita? || Quando è nato?
Wat is uw geboortedatum? || Wanneer bent u geboren? || Qual é a sua data de nascimento? || Quando você nasceu?
Jaka jest Pana data urodzenia? || Kiedy się Pani urodziła?
"""
ANSWERS = texts(r"""
{question}\n{date} || {question} {date} || agent: {question}\nroe: {date}\n
agent: {question}\nroe: sure, it's {date} || [10:32] Agent: {question}\n[10:33] Jo Roe: {date}
[{{"role": "assistant", "content": "{question}"}}, {{"role": "user", "content": "{date}"}}]
""")
NO_ANSWERS = r"""
What is your date of birth? My order is from 12/03/2024
Please enter your date of birth. The form was updated on 12/03/2024 || Birthday?\nThe invoice was issued on 12/03/2024
Do you know my birthday?\nThe meeting is on 12/03/2024 || Date of birth?\nI will tell you.\n2024-05-03 10:00:00 closed
When was the firm founded?\n12/03/1984 || When does it expire?\n12/03/2029 || What is the date?\n12/03/2024
Wann läuft der Vertrag ab?\n12.03.2029 || Quelle est la date ?\n12/03/2024
Is a date of birth needed? It was until 12/03/2024
"""
# rows whose other cells show that those between `«` and `»` are personal
ROWS = """
Harold Finch,345-67-8912,«07/30/1978»,3782 8224 6310 005,«7891»,«12/28» || Jo Roe;4111111111111111;«03/27»;«123»
4111 1111 1111 1111|«09/2027»|«321»|Jo Roe || "Roe, Jo","4111111111111111","«321»","«11/29»"
('Jo Roe', '345-67-8912', '«1978-07-30»', 'Leeds') || ["Jo Roe", "345-67-8912", "«1978-07-30»"]
Anna Kowalska;anna@corp.example;«12.03.1984»;Gdynia || Anna Kowalska;44051401359;«14.05.1944»;Gdynia
Lena Maier;DE89370400440532013000;«12.03.1984»;Bonn || Luc Petit;1 85 05 78 006 084 91;«05/05/1985»;Metz
Ana Ruiz;12345678Z;«12/03/1984»;Lugo || Ugo Riva,RSSMRA85T10A562S,«10/12/1985»,Bari
Rui Melo|410.696.797-98|«12/03/1984»|Faro || «12-03-1984»,Bram Vos,bram@corp.example
id7,Jo Roe,jo@corp.example,«19780730»,x || Jo Roe,jo@corp.example,«30 July 1978»,x
Jo Roe,jo@corp.example,«07/30/78»,x || AB 12 34 56 C | Jo Roe | «30/07/1978»
INSERT INTO p VALUES ('Jo', 'jo@corp.example', '«1978-07-30»', 5); || | Jo Roe | 345-67-8912 | «1978-07-30» |
Iris Bell|+1 415 555 0133|«04/09/1962» || Hilde Brandt, «17.3.1951», 12345 Berlin
VALUES ('Jan', '«1955-09-09»', 'jan@mail.example');
"""
# an expiry and a code outside rows
ON_CARDS = r"""
cvv «984» exp «04/27» || card 4111 1111 1111 1111, exp «11/28», cvv «201» || 4111 1111 1111 1111 «11/28» «201»
{"card":{"number":"4111111111111111","cvc":"«777»","exp":"«01/29»"}} || pan,exp,cvc\n4111111111111111,«02/30»,«661»
The three digits on the back are «883». || What's the CVV?\n«442» || gültig bis «05/27», Prüfnummer «882» || CVN: «331»
Karte gültig bis «09/28» || carte bleue expire le «04/27» || date d'expiration de la carte : «05/28»
tarjeta caduca «06/28», CVV «410» || código de seguridad de la tarjeta «661» || scadenza carta «04/30»
kaart verloopt «07/27» || cartão validade «08/28» cvv «771» || karta, data ważności «12/29» || CVV do cartão «664»
{"cc":"4242424242424242","exp_date":"«12/28»","security_code":"«912»"} || the three-digit code on the back is «302»
my visa expires «06/27» || card expiry: «2028-07» || valid thru «08/26» visa
"""
NO_CARDS = """
the milk expires 06/27 || exp 12/28 points || page 11/28 of the card || gültig bis 05/27
the offer is valid until 04/30
my three digits are 883 || three digits on the meter || card 11/28 || season 2026/27, card
"""
# rows below their headings, given as plain text
TABLES = r"""
name,dob,plan\nOla Roe,«1992-10-01»,gold || nom;naissance\nJean;«02/02/1970»
| Name | Geburtsdatum |\n| Jo | «02.02.1990» |
id,name,birth_date\n3,Kim,«1991-05-05»\n4,Lee,«1992-06-07» || x|dob\nEve|«1983-11-30» || a;fecha_nac\nx;«1964-02-29»
"""
OTHER_TABLES = r"""
name,opened\nx,1992-10-01 || name,dob\nx,none || name,dob\nx,y,1992-10-01 || name,dob\n\nx,1992-10-01
"""
TABS = "Jo\t4111-1111-1111-1111\t«123»\t«12/28»"
OTHER_ROWS = """
jo@corp.example,2024-05-03,paid || A-17,1978-07-30,blue,1200 || 1978-07-30,1979-07-30,1980-07-30 || Jo Roe,12/28,123
book,9780306406157,12/28,123 || 4111111111111112,123,12/28 || jo@corp.example,ok,12:30 || order 17,345-67,1978,x
On 07/30/1978, we met, and jo@corp.example wrote. || GET /a,200,123,12/28 || the years 1978, 1979, 1980
"""
KINDS = ("DATE_OF_BIRTH", "PASSWORD", "CREDIT_CARD")


def test_the_answer_to_a_question_for_a_date_of_birth_is_found() -> None:
    for question in texts(QUESTIONS):
        for form in ANSWERS:
            for date in ["07/03/1978", "12.03.1984", "1984-03-12"]:
                text = form.format(question=question, date=date)
                assert finds("DATE_OF_BIRTH", text) == [date], text


def test_other_dates_after_a_question_are_left() -> None:
    for text in texts(NO_ANSWERS):
        assert finds("DATE_OF_BIRTH", text) == [], text


def test_the_cells_beside_a_number_of_a_person_are_found() -> None:
    for marked_row in (*texts(ROWS), TABS):
        row, values = plain(marked_row), re.findall("«(.+?)»", marked_row)
        for text in [row, f"name stays\n{row}\n", f"{row}\n{row}"]:
            result = shown(text)
            for value in values:
                assert value not in result.replace("[", " ["), (text, result)


def test_what_is_on_a_card_is_found_outside_rows() -> None:
    for marked_text in texts(ON_CARDS):
        result = shown(plain(marked_text))
        assert [value for value in re.findall("«(.+?)»", marked_text) if value in result] == [], result
    for text in texts(NO_CARDS):
        assert shown(text) == text


def test_a_cell_below_its_heading_is_found() -> None:
    for marked_text in texts(TABLES):
        assert finds("DATE_OF_BIRTH", plain(marked_text)) == re.findall("«(.+?)»", marked_text), marked_text
    for text in texts(OTHER_TABLES):
        assert finds("DATE_OF_BIRTH", text) == [], text


def test_cells_of_other_rows_are_left() -> None:
    for text in texts(OTHER_ROWS):
        found = [value for kind in KINDS for value in finds(kind, text)]
        assert found in ([], ["9780306406157"]), text


def test_the_cells_of_the_format_csv_are_a_row() -> None:
    result = shown("Harold Finch,345-67-8912,07/30/1978,3782 8224 6310 005,7891,12/28\n", "csv")
    assert result == "Harold Finch,[US_SSN],[DATE_OF_BIRTH],[CREDIT_CARD],[PASSWORD],[CREDIT_CARD]\n"
