"""The short answer to a question is masked as what was asked for, in every language."""

import json

from core.text.formats.builder import FormatLimits, FormatOptions, parse
from core.text.mask_entity import join, masks_of, search
from core.text.policy import MaskPolicy
from core.text.recognisers.asked import NOTHING_ASKED

ANSWERED = (
    ("What is your passport number?", "533380006", "PASSPORT"),
    (
        "Could you give me your passport number so that I can look up the booking?",
        "It's 533380006, thanks.",
        "PASSPORT",
    ),
    ("Thanks! Which number is on your passport? You find it on the second page.", "C01X00T47", "PASSPORT"),
    ("And your date of birth, please?", "12.03.1985", "DATE_OF_BIRTH"),
    ("When were you born?", "March 12, 1985", "DATE_OF_BIRTH"),
    ("Please enter the SMS code that we sent to your phone.", "482913", "PASSWORD"),
    ("What's your account number?", "7004512", "BANK_ACCOUNT"),
    ("What's the CVV on the back of the card?", "123", "PASSWORD"),
    ("Can you tell me your PIN? I keep it to myself.", "4412", "PASSWORD"),
    ("What's your postcode?", "SW1A 1AA", "POSTCODE"),
    ("What is your password?", "hunter2-Blue", "PASSWORD"),
    ("Do you have Wi-Fi? What's the Wi-Fi password?", "correct-horse-battery", "PASSWORD"),
    ("What is your customer number?", "Sure: K-448201", "CUSTOMER_ID"),
    ("Et le numéro de contrat ?", "FX 2207 8814. Vous pouvez rappeler mon mari ce soir.", "CUSTOMER_ID"),
    ("Code van het hek?", "7391", "PASSWORD"),
    ("Wie ist der Code für das Garagentor?", "4471", "PASSWORD"),
    ("What's the gate code?", "2207#", "PASSWORD"),
    ("¿Cuál es el código de la puerta?", "7714", "PASSWORD"),
    ("Wie lautet Ihre Passnummer?", "C01X00T47", "PASSPORT"),
    ("Können Sie mir bitte Ihre Kontonummer nennen?", "Klar, 7004512", "BANK_ACCOUNT"),
    ("Bitte geben Sie Ihre PIN ein.", "4412", "PASSWORD"),
    ("Wie ist Ihr Geburtsdatum?", "12.03.1985", "DATE_OF_BIRTH"),
    ("Quel est votre numéro de passeport ?", "C'est le 12AB34567", "PASSPORT"),
    ("Quelle est votre date de naissance ?", "12 mars 1985", "DATE_OF_BIRTH"),
    ("Quel est le code SMS que vous avez reçu ?", "482913", "PASSWORD"),
    ("¿Cuál es su número de pasaporte?", "AAB123456", "PASSPORT"),
    ("¿Me puede decir su fecha de nacimiento, por favor?", "12/03/1985", "DATE_OF_BIRTH"),
    ("Qual è il suo codice fiscale?", "12345678903", "TAX_ID"),
    ("Qual è il numero di conto per il bonifico?", "È 000123456789", "BANK_ACCOUNT"),
    ("Wat is uw postcode?", "1017 AB", "POSTCODE"),
    ("Kunt u mij uw rekeningnummer geven?", "417164300", "BANK_ACCOUNT"),
    ("Qual é o número do seu passaporte?", "FZ123456", "PASSPORT"),
    ("Pode confirmar o código de verificação que recebeu?", "482913", "PASSWORD"),
    ("Jaki jest numer Pana paszportu?", "EA1234567", "PASSPORT"),
    ("Proszę podać kod pocztowy.", "00-950", "POSTCODE"),
)
STAYS = (
    ("What is your passport number?", "yes"),
    ("Do you know your password?", "no"),
    ("Did you reset your password?", "done"),
    ("What's the gate code?", "vale, dale"),
    ("What's the gate code?", "lol"),
    ("What is in the basket of account 5?", "42 apples"),
    ("What is your account number?", "12345 apples"),
    ("How many PINs does the connector have?", "2048"),
    ("How much is in your bank account?", "50000"),
    ("Wie viele Reisepässe brauchen Sie?", "12000"),
    ("Combien de comptes avez-vous ?", "12345"),
    ("What port does the account service use?", "50051"),
    ("What is the HTTP status code?", "404"),
    ("Which year was it?", "2019"),
    ("What is your PIN?", "I will not tell you before 2030."),
    ("What is your account number?", "for i in range(10): total += prices[i]"),
    ("I looked at your account.", "12345"),
    ("What is the sum?", "533380006"),
)

# the turns before an answer, between `|`, and the answer
LATER = """
What is your passport number?|one second|Sure, take your time.|533380006
What is your passport number?|it's in my bag|No problem, I'll wait.|ok, I have it|533380006
What is your passport number?|Do you need the German or the Polish one?|The German one, please.|C01X00T47
What is your passport number?|One moment.|Of course. Could you read me the number on the second page?|533380006
What is your date of birth?|why do you need that?|To verify your identity.|12.03.1985
What's your account number?|the old or the new one?|The new one.|7004512
What's your passport number and your date of birth?|533380006|12.03.1985
I sent you a code by SMS. Please type it in.|482913
We have just sent you a six-digit code. What does it say?|hang on|482913
Can you tell me your PIN?|Which PIN?|The one of your card.|4412
Wie lautet Ihre Passnummer?|Moment bitte|Kein Problem, lassen Sie sich Zeit.|C01X00T47
Wie ist Ihr Geburtsdatum?|Wofür brauchen Sie das?|Damit ich Sie im System finde.|12.03.1985
Bitte geben Sie Ihre PIN ein.|Die vom Telefon?|Nein, die der Karte.|4412
Ich habe Ihnen einen Code per SMS geschickt. Bitte geben Sie ihn ein.|Moment|482913
Quel est votre numéro de passeport ?|Un instant|Je vous en prie, prenez votre temps.|12AB34567
Nous venons de vous envoyer un code à six chiffres. Quel est-il ?|482913
Quelle est votre date de naissance ?|Pourquoi ?|C'est pour vérifier votre identité.|12 mars 1985
¿Cuál es su número de pasaporte?|un momento|Claro, tómese su tiempo.|AAB123456
¿Cuál es su número de cuenta?|¿la corriente?|Sí, esa.|000123456789
Qual è il suo codice fiscale?|un attimo|Certo, faccia con calma.|12345678903
Qual è il numero di conto per il bonifico?|Quello nuovo?|Sì, quello nuovo.|000123456789
Wat is uw postcode?|van thuis?|Ja, van uw huisadres.|1017 AB
Wat is uw rekeningnummer?|even zoeken|Geen haast.|417164300
Qual é o número do seu passaporte?|só um momento|Claro, sem pressa.|FZ123456
Qual é a sua data de nascimento?|para quê?|Para confirmar a sua identidade.|12/03/1985
Jaki jest numer Pana paszportu?|chwileczkę|Oczywiście, proszę się nie spieszyć.|EA1234567
Proszę podać kod pocztowy.|domu czy firmy?|Domu.|00-950
Please enter your password.|the one for the app?|Yes, that one.|Sunshine
Wie lautet Ihr Kennwort?|Welches?|Das für die App.|Sonnenblume
"""
# questions whose answer has no form, and their answers
SAID = """
What is your password?|sunshine
And the Wi-Fi password?|blueberry muffin
What is your user name?|mkeller
What's your login name?|it's MKeller
Could you verify your identity with your mother's maiden name?|Kowalski
What was the name of your first pet?|My dog was called Bello
In which city were you born?|Graz
For security: what is your city of birth?|in Graz
Please tell me the one-time code.|482-913
What code did you receive?|X7K9Q2
PIN?|4412
What is your IBAN?|DE12 3456 7890 1234 5678 90
Can you give me your membership number?|884512
Do you remember your mother's maiden name?|Kowalski
Wie lautet Ihr Passwort?|Sonnenschein
Wie ist Ihr Benutzername?|mkeller
Wie lautet der Mädchenname Ihrer Mutter?|Kowalski
Wie heißt Ihr Haustier?|Er heißt Bello
In welcher Stadt sind Sie geboren?|in Graz
Wie lautet Ihre Mitgliedsnummer?|884512
Quel est votre mot de passe ?|soleil
Votre identifiant, s'il vous plaît ?|mkeller
Quel est le nom de jeune fille de votre mère ?|Kowalski
Comment s'appelle votre chien ?|il s'appelle Rex
Quelle est votre ville de naissance ?|Lyon
Quel est votre numéro d'adhérent ?|884512
¿Cuál es su contraseña?|girasol
¿Cuál es su nombre de usuario?|mkeller
¿Cuál es el apellido de soltera de su madre?|Kowalski
¿Cómo se llama su mascota?|Toby
¿En qué ciudad nació?|en Sevilla
¿Cuál es su número de socio?|884512
Qual è la sua password?|girasole
Qual è il suo nome utente?|mkeller
Qual è il cognome da nubile di sua madre?|Kowalski
Come si chiama il suo cane?|si chiama Fido
Dov'è nato?|a Bari
Qual è il suo numero di tessera?|884512
Wat is uw wachtwoord?|zonnebloem
Uw gebruikersnaam graag.|mkeller
Wat is de meisjesnaam van uw moeder?|Kowalski
Hoe heet uw huisdier?|Bello
Wat is uw geboorteplaats?|Gent
Wat is uw lidmaatschapsnummer?|884512
Qual é a sua senha?|girassol
Qual é o seu nome de utilizador?|mkeller
Qual é o nome de solteira da sua mãe?|Kowalski
Como se chama o seu cão?|Bobi
Em que cidade nasceu?|em Braga
Qual é o seu número de sócio?|884512
Jakie jest Pana hasło?|słoneczko
Podaj nazwę użytkownika.|mkeller
Jakie jest nazwisko panieńskie Pana matki?|Kowalska
Jak wabi się Pana pies?|Burek
W jakim mieście się Pan urodził?|w Krakowie
Jaki jest Pana numer członkowski?|884512
"""
ASKED_FOR_WORDS = (
    *("What is your password?", "What's your login name?", "What is your pet's name?", "Wie lautet Ihr Passwort?"),
    *("Quel est votre mot de passe ?", "¿Cuál es su contraseña?", "Qual è la sua password?", "Wat is uw wachtwoord?"),
    *("Qual é a sua senha?", "Jakie jest Pana hasło?"),
)
REPLIES = """
yes|no idea|I forgot it|what do you mean?|I don't know|why?|later|not sure|one second|can I reset it?|hang on|No thanks
forgot, sorry|Sure thing!|Keine Ahnung|weiß ich nicht|hab ich vergessen|was meinen Sie?|Moment bitte|aucune idée
je ne sais pas|j'ai oublié|que voulez-vous dire ?|un instant|no lo sé|ni idea|se me olvidó|¿qué quiere decir?
un momento|non lo so|l'ho dimenticata|nessuna idea|che cosa intende?|geen idee|weet ik niet|ik ben het vergeten
wat bedoelt u?|não sei|esqueci-me|não faço ideia|o que quer dizer?|nie wiem|zapomniałem|nie mam pojęcia|o co chodzi?
"""
# turns and an answer to none of their questions
ANSWERED_BEFORE = """
Have you changed your password?|twice already
Which password manager do you use?|Bitwarden
How do I change my password?|Settings
Why is the password wrong?|typo
When was the password changed?|Monday
What is your passport number?|533380006|Thanks. How can I help?|12345678
What is your pet's name?|Bello|What breed is it?|Labrador
What is the error code?|40312
"""


def rows(table: str) -> list[list[str]]:
    return [line.split("|") for line in table.strip().split("\n")]


def found(text: str, question: str = "") -> list[tuple[str, str]]:
    policy = MaskPolicy(question=question)
    masks = masks_of(text, join(text, policy, [search(text, policy)]))
    return [(text[mask.start : mask.end], mask.type) for mask in masks]


def answered(*turns: str) -> list[tuple[str, str]]:
    asked = NOTHING_ASKED
    for turn in turns[:-1]:
        asked = asked.after(turn)
    return found(turns[-1], asked.question_for(turns[-1]))


def test_the_answer_to_a_question_is_what_was_asked_for() -> None:
    missed = [each for each in ANSWERED if each[2] not in [kind for _, kind in answered(*each[:2])]]
    added = [each for each in STAYS if answered(*each) != found(each[1])]
    assert (missed, added) == ([], [])


def test_the_number_of_a_thing_is_no_phone_number() -> None:
    for asked in (
        "What is your order number?",
        "Could I have your order number, please?",
        "Quel est votre numéro de commande ?",
        "And the invoice number?",
    ):
        assert answered(asked, "7004512") == [], asked
    assert ("7004512", "PHONE_NUMBER") in answered("What is your phone number?", "7004512")


def test_an_answer_in_long_white_space_is_read_at_once() -> None:
    blank = " \r\n" * 100_000  # patterns would take hours for it
    asked = NOTHING_ASKED.after("What is your PIN?")
    assert asked.question_for(f"{blank}4412{blank}") == "What is your PIN?"
    assert asked.question_for(blank) == ""
    assert answered("What is your PIN?", f"{blank[:1500]}4412{blank[:1500]}") == [("4412", "PASSWORD")]


def test_line_ends_of_two_characters_and_hard_blanks_are_read() -> None:
    for text in ("What is your PIN?\r\n4412\r\n", "Agent\u00a0: Quel est votre code PIN\u202f?\r\nMax\u00a0: 4412\r\n"):
        assert ("4412", "PASSWORD") in found(text), text


def test_a_question_stays_open_until_it_is_answered() -> None:
    missed = [turns for turns in rows(LATER) if turns[-1] not in [text for text, _ in answered(*turns)]]
    added = [turns for turns in rows(ANSWERED_BEFORE) if answered(*turns)]
    for turns in rows(LATER):
        speakers = ["AB"[number % 2] for number in range(len(turns) - 1)]
        lines = [f"{who}: {text}" for who, text in zip([*speakers, "B"], turns, strict=True)]
        if turns[-1] not in "".join(text for text, _ in found("\n".join(lines))):
            missed.append(lines)
    assert (missed, added) == ([], [])


def test_the_answer_to_a_question_for_words_may_be_a_word() -> None:
    missed = [
        turns for turns in rows(SAID) if turns[-1].split()[-1] not in "".join(text for text, _ in answered(*turns))
    ]
    replies = [reply for row in rows(REPLIES) for reply in row]
    added = [(question, reply) for question in ASKED_FOR_WORDS for reply in replies if answered(question, reply)]
    assert (missed, added) == ([], [])


def test_the_answers_in_a_transcript_are_what_was_asked_for() -> None:
    turns = [{"role": "assistant", "content": "{}"}, {"role": "user", "content": "{}"}]
    chat = parse("json", json.dumps({"messages": turns}), FormatOptions(), FormatLimits())
    assert chat is not None
    forms = ("Agent: {}\nCustomer: {}\nAgent: Thank you.", "[10:02] Anna Kowalska: {}\n\n[10:03] Max: {}", chat.view)
    missed = [
        (form, question)
        for form in forms
        for question, answer, kind in ANSWERED[:12]
        if kind not in [each for _, each in found(form.format(question, answer))]
    ]
    added = [(form, each) for form in forms for each in STAYS if found(form.format(*each)) != found("\n".join(each))]
    assert (missed, added) == ([], [])
