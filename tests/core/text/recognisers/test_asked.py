"""The short answer to a question is masked as what was asked for, in every language."""

import json

from core.text.formats.builder import FormatLimits, FormatOptions, parse
from core.text.mask_entity import join, masks_of, search
from core.text.policy import MaskPolicy
from core.text.recognisers.asked import question_for

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


def found(text: str, question: str = "") -> list[tuple[str, str]]:
    policy = MaskPolicy(question=question)
    masks = masks_of(text, join(text, policy, [search(text, policy)]))
    return [(text[mask.start : mask.end], mask.type) for mask in masks]


def answered(question: str, answer: str) -> list[tuple[str, str]]:
    return found(answer, question_for(answer, question))


def test_the_answer_to_a_question_is_what_was_asked_for() -> None:
    missed = [each for each in ANSWERED if each[2] not in [kind for _, kind in answered(*each[:2])]]
    added = [each for each in STAYS if answered(*each) != found(each[1])]
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
