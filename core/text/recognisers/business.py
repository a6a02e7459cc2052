"""Numbers that an organisation gives to a person: employees, customers, members, contracts, policies. By label."""

from __future__ import annotations

from core.text.labelled import GROUPED_CODE, LETTERED_CODE, Label, labelled_scan, phrases
from core.text.recogniser import Recogniser

_EMPLOYEE_NOUNS = phrases(
    "employee|employees|emp|staff|personnel|badge|payroll|worker|Mitarbeiter|Mitarbeiterin|Mitarbeitenden|"
    "Personal|Angestellten|Dienstausweis|employé|employée|salarié|salariée|agent|empleado|empleada|trabajador|"
    "trabajadora|dipendente|medewerker|medewerkers|personeels|personeel|werknemer|werknemers|funcionário|"
    "funcionária|colaborador|colaboradora|trabalhador|pracownika|pracowniczy|pracownik|służbowy|ewidencyjny"
)
_EMPLOYEE_NAMES = phrases(
    "Personalnummer|Personal-Nr|matricule|n° matricule|numéro de matricule|matricola|numero di matricola|legajo|"
    "número de legajo|nómina|nº de nómina|staff #|employee #|numer ewidencyjny|matrícula de empleado|"
    "matrícula do funcionário|matricule salarié|matricule employé|matricule agent|matricola dipendente|"
    "matricola aziendale|badge|Dienstausweis|Mitarbeiterausweis|tesserino|personeelspas|identyfikator"
)
_CUSTOMER_NOUNS = phrases(
    "customer|customers|client|clients|cust|member|members|membership|subscriber|subscription|loyalty|"
    "loyalty card|frequent flyer|contract|policy|policyholder|insurance policy|claim|customer account|"
    "client account|Kunden|Mitglieds|Mitglied|Vertrags|Vertrag|Vertragskonto|Versicherungsschein|Versicherungs|Policen|"
    "Police|Abonnenten|Kundenkonto|Kundenkarten|cliente|clientes|abonné|abonnée|adhérent|adhérente|contrat|"
    "police|sociétaire|allocataire|carte de fidélité|socio|socia|abonado|contrato|póliza|tarjeta de socio|"
    "contratto|polizza|tessera|abbonato|klant|klanten|lid|leden|lidmaatschaps|contract|polis|relatie|apólice|"
    "assinante|associado|klienta|klient|członka|członkowski|umowy|polisy|abonenta|karty stałego klienta"
)
_CUSTOMER_NAMES = phrases(
    "Kundennr|Kd.-Nr|KdNr|Vertragsnummer|Versicherungsscheinnummer|Mitgliedsnummer|Policennummer|"
    "Versicherungsnummer|polisnummer|klantnummer|lidnummer|lidmaatschapsnummer|contractnummer|relatienummer|"
    "customer account number|client account number|loyalty card|frequent flyer number"
)


def recognisers() -> tuple[Recogniser, ...]:
    rows = (
        ("EMPLOYEE_ID", _EMPLOYEE_NAMES, _EMPLOYEE_NOUNS),
        ("CUSTOMER_ID", _CUSTOMER_NAMES, _CUSTOMER_NOUNS),
    )
    return tuple(
        Recogniser(entity, scan, digits_min=digits_min, copies=True)
        for entity, names, nouns in rows
        for digits_min, scan in (
            (3, labelled_scan(Label(names=names, nouns=nouns), GROUPED_CODE)),
            (5, labelled_scan(Label(names=nouns), LETTERED_CODE)),
        )
    )
