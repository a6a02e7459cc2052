"""PASSWORD: passwords, PINs and one-time codes that a context names, in eight languages.

A word such as `password`, `Kennwort` or `mot de passe` must precede the value, or `is your verification code` follow
it. A hit covers the value. Plain words are passwords only where the form leaves no doubt: in quotes, or alone after a
colon or an equals sign at the end of a line. `Password: required` and `password: str` are none.

In a conversation the value may stand away from its word: `the root pw? - its ...`, `a bad password, I changed mine to
...`. Then it holds a letter and a digit, and is no amount or time.
"""

from collections.abc import Iterator

import regex  # type: ignore[import-untyped]

from core.text.labelled import phrases
from core.text.recogniser import Hit, Recogniser, around, lower, matches_in
from core.text.recognisers.credentials import credential_pairs, written_passwords
from core.text.recognisers.secret_values import Name, NamedValue, named_values, placeholder, reference

SAID_SCORE = 0.75
CHARS_MIN = 5
CHARS = 240

_WORD = (
    r"(?<!\p{L})(?:pass(?:word|phrase|wd|code)?|pwd|pw|passwort|kennwort|mot[ ]de[ ]passe|mdp|contraseña|contrasena"
    r"|clave|wachtwoord|senha|palavra-passe|parola[ ]d['’]ordine|hasł[oa]|wifi[ -]?key)s?(?!\p{L})"
)
_CHANGED = (
    r"(?:changed|reset|switched|set|updated)[ ](?:mine|it|ours|that|hers|his|theirs|this)[ ](?:back[ ])?to"
    r"|(?:meines|meins|es|unseres|das)[ ](?:jetzt[ ])?(?:auf|in|zu)"
    r"|(?:changé|remplacé|modifié|mis)[ ](?:le[ ](?:mien|nôtre)|ça)?[ ]?(?:en|par|à)"
    r"|(?:cambi(?:é|ado|amos)|puse)[ ](?:la[ ](?:mía|nuestra)[ ])?(?:a|por)"
    r"|cambiat[oa][ ](?:la[ ](?:mia|nostra)[ ])?in|(?:de|het)[ ](?:mijne|onze)[ ](?:veranderd[ ])?(?:in|naar)"
    r"|(?:mudei|troquei|alterei)[ ](?:a[ ](?:minha|nossa)[ ])?para|(?:zmieni[łl]\w{1,4})[ ](?:(?:swoje|moje|je)[ ])?na"
)
_ITS = (
    r"(?:it['’]?s|it[ ]is|should[ ]be|das[ ]ist|es[ ]ist|ist|lautet|c['’]est|es|è|het[ ]is|is|é|to)(?:[ ](?:still|now"
    r"|noch|jetzt|toujours|sigue|ancora|nog|ainda|nadal))?"
)
_VALUE = r"[ ][\"'`“„«]?(?P<value>[^\s\"'`“”„«»<>]{5,64})"
# the answer to a question that unlocks an account, whatever it is
_ANSWER = regex.compile(
    r"(?<!\p{L})(?:(?:security|secret)[ ]question|sicherheitsfrage|question[ ](?:secrète|de[ ]sécurité)"
    r"|pregunta[ ](?:secreta|de[ ]seguridad)|domanda[ ](?:segreta|di[ ]sicurezza)|(?:beveiligings|geheime[ ])vraag"
    r"|pergunta[ ](?:secreta|de[ ]segurança)|pytanie[ ](?:pomocnicze|bezpieczeństwa"
    r"|zabezpieczające))[^\n]{0,80}?(?<!\p{L})"
    r"(?:answer|antwort|réponse|respuesta|risposta|antwoord|resposta|odpowiedź)[ ]?[:=][ ]?[\"'„“«]?"
    r"(?P<value>[\p{L}\d][^\n\"'“”»,;.]{1,40})",
    regex.IGNORECASE,
)
_ANSWER_WORDS = ("question", "frage", "pregunta", "domanda", "vraag", "pergunta", "pytanie")
_USER_AND_VALUE = regex.compile(
    r"(?<![\w/.-])(?:(?:admin(?:istrator)?|root|guest|gast|invité|invitado|ospite|convidado|gość|postgres|pi"
    r"|sa|sysadmin)|(?:wi-?fi|wlan|ssid)(?:[ ]\p{L}{1,15}){0,4}?[ ]?(?:[:=]|is|ist|est|es|è|é|to)[ ]{1,2}[\w.-]{2,32})"
    r"[ ]/[ ](?P<value>[^\s\"'`“”„«»<>]{5,64})",
    regex.IGNORECASE,
)
_FORMS = (
    _USER_AND_VALUE,
    regex.compile(rf"{_WORD}[^\n]{{0,60}}?[ ](?:{_CHANGED}){_VALUE}", regex.IGNORECASE),
    regex.compile(
        rf"{_WORD}[^\n.!?]{{0,40}}(?:[?!.…,]|[ ][-–—]"
        rf"|(?=\n))[\s>*•–—-]{{1,4}}(?:\p{{L}}{{1,20}}(?:[ ]\d\d:\d\d)?[:>|]?[ ]){{0,2}}?(?:{_ITS}){_VALUE}",
        regex.IGNORECASE,
    ),
)
_LITERALS = phrases("pass|pwd|pw|kennwort|mdp|contrase|clave|wachtwoord|senha|parola|hasł|wifi| / ")
_AMOUNT = regex.compile(
    r"[\d.,:/%€$£+-]+(?:-?\p{L}{1,12})?"
    r"|(?:\p{L}{1,3}|version|release|level|step|phase|page|part)\d{1,4}"
)


def conversation_passwords(text: str, low: str) -> Iterator[Hit]:
    """Yield the passwords. `low`: the text in lower case, of equal length."""
    for match in matches_in(_ANSWER, text, around(low, _ANSWER_WORDS, before=20, after=CHARS)):
        yield Hit(match.start("value"), match.end("value"), SAID_SCORE)
    for pattern in _FORMS:
        for match in matches_in(pattern, text, around(low, _LITERALS, before=20, after=CHARS)):
            start, end = match.span("value")
            end = start + len(text[start:end].rstrip(".,;:)!?"))
            value = text[start:end]
            mixed = any(map(str.isdecimal, value)) and any(map(str.isalpha, value))
            other = _AMOUNT.fullmatch(value) or placeholder(value) or reference(value) or "://" in value or "=" in value
            if len(value) >= CHARS_MIN and mixed and not other:
                yield Hit(start, end, SAID_SCORE)


SCORE = 0.85
PASSWORD_CHARS_MIN = 3
PASSWORD_CHARS_MAX = 128
STRONG_CHARS_MIN = 5

_WIFI = (
    r"(?:[ ](?:du|de[ ]la|de|del|dello|do|da|van[ ](?:de|het)|voor|for|für|zum|vom))?"
    r"[ ](?:the[ ]|la[ ]|le[ ]|das[ ])?(?:wi-?fi|wlan)"
)
_NAMES = (
    rf"(?:clés?|clef|clave|contraseña|senha|hasło|has(?:ła|lo)|kod|code|chiave|quella|password|passwort"
    rf"|sleutel|wachtwoord){_WIFI}|"
    r"pass(?:[ _-]?word|wd|[ _-]?phrase|[ _-]?code)s?|pwd|(?<=[_/\s\"'-]|^)(?:pass"
    r"|pw)(?=[\"'\])]{0,2}\s{0,3}(?:[:=]|->|→)|[ ](?:is|was|now)[ ])"
    r"|pw(?=[ ])|(?<=_)pass(?=[ ])|(?<![\p{L}.])ww(?=:?[ ])"
    r"|passwor[dt](?:es)?|kennwort(?:es)?|passphrase|losung|zugangsdaten"
    r"|mots?[ ]de[ ]passe|mdp|phrase[ ]secrète|phrase[ ]de[ ]passe"
    r"|contraseñas?|contrasenas?|clave(?:[ ]de[ ](?:acceso|usuario|la[ ]wifi))?|palabra[ ]de[ ]paso"
    r"|parola[ ](?:d['’]ordine|chiave)|chiave[ ](?:del[ ])?wi-?fi"
    r"|wachtwoord(?:en|zin)?"
    r"|senhas?|palavra[ -]passe"
    r"|has(?:ło|ła|łem|lo|la|lem)|hasłach"
    r"|(?:wpa2?|wi-?fi|wlan)[ _-]?(?:key|psk|schlüssel|sleutel)|psk"
)
_PASSWORD = Name(
    regex.compile(
        rf"(?<!\p{{L}})(?:\w{{0,30}}_|--?|\p{{L}}{{1,12}}?(?=passw|pwd))?(?:{_NAMES})(?![\p{{Ll}}])", regex.IGNORECASE
    ),
    phrases(
        "pass|pwd|pw|kennwort|losung|zugangsdaten|mdp|phrase|contrase|clave|palabra|parola|chiave|wachtwoord|"
        "senha|palavra|hasł|hasl|wpa|wifi|wi-fi|wlan|psk|ww"
    ),
)
_CAMEL = Name(
    regex.compile(r"(?<=[a-z])(?:Password|Passwd|Pwd|Passphrase|Kennwort|Passwort)(?![a-z])"),
    ("passw", "pwd", "phrase", "kennwort"),
)

_CODE = (
    r"PIN(?:[ -]?(?:code|number|nummer|kode))?|code[ ](?:pin|secret)|código[ ]pin|codice[ ]pin|kod(?:em|u)?[ ]pin"
    r"|pincode|T\.?A\.?N\.?|m-?tan|sms-?tan|O\.?T\.?P\.?(?:[ -]code)?|CV[VC]2?|puk"
    r"|(?:verification|security|access|login|log-in|sign-in|one[ -]time|auth(?:entication|orization)?|confirmation"
    r"|sms|2fa|mfa|two-factor|unlock|entry|door|gate|alarm|safe|garage|voicemail|lockbox|keypad|reset|backup|recovery"
    r"|activation)"
    r"[ ](?:pass)?(?:code|pin)"
    r"|(?:bestätigungs|verifizierungs|sicherheits|zugangs|einmal|anmelde|freischalt|tür|alarm|sms-|entsperr"
    r"|aktivierungs)[ -]?"
    r"(?:code|kode|passwort|pin)"
    r"|code[ ](?:du|de[ ]la|de|fürs|vom|zum|van[ ](?:de|het)|for[ ]the)[ ](?:portail|porte|portillon|coffre|garage"
    r"|digicode|tor|tür|safe|tresor|poort|deur|kluis|gate|door|alarm|building|lobby|lockbox)"
    r"|código[ ](?:de[ ]la|del|do|da)[ ](?:puerta|portal|alarma|garaje|caja|portão|porta|alarme|cofre|prédio)"
    r"|codice[ ](?:del(?:la)?[ ]|dell['’])(?:cancello|portone|porta|allarme|cassaforte|garage)"
    r"|(?:safe|vault|padlock|lock(?:er)?|gate|tresor)(?:[ ]combination|[ ]combo|[ ]opens[ ]with|[ ]code)"
    r"|code[ ](?:de[ ](?:vérification|sécurité|confirmation|validation|connexion|déverrouillage|la[ ]porte"
    r"|l['’]alarme)|d['’](?:accès|authentification|activation|entrée)|à[ ]usage[ ]unique|sms)"
    r"|código[ ](?:de[ ](?:verificación|seguridad|acceso|acesso|confirmación|un[ ]solo[ ]uso|verificação|segurança"
    r"|confirmação|autenticação|autenticación|activación|ativação|la[ ]puerta|uso[ ]único|desbloqueo)|sms)"
    r"|codice[ ](?:di[ ](?:verifica|sicurezza|accesso|conferma|attivazione|autenticazione|sblocco)|otp|sms|monouso"
    r"|segreto)"
    r"|(?:verificatie|beveiligings|toegangs|bevestigings|inlog|activerings|deur|ontgrendel|sms-)code|eenmalige[ ]code"
    r"|kod(?:em|u)?[ ](?:weryfikacyjny(?:m)?|dostępu|jednorazow\w{1,3}|bezpieczeństwa|aktywacyjny|potwierdzający|sms"
    r"|do[ ]\w{1,15})|(?:your|dein|ihr|votre|ton|tu|su|il[ ]tuo|il[ ]suo|uw|je|jouw|seu|teu|o[ ]seu|twój|pana"
    r"|pani)[ ](?:code|código|codice|kod)"
)
_CODES = regex.compile(rf"(?<![\p{{L}}\d_])(?:{_CODE})(?![\p{{L}}])", regex.IGNORECASE)
_CODE_WORDS = phrases("code|kode|código|codice|kod|pin|tan|otp|o.t.p|t.a.n|cvv|cvc|puk|passwort|opens with|comb")
_NUMBER = regex.compile(r"\d")
CODE_CHARS_AFTER = 120
_DIGITS = regex.compile(
    r"(?P<value>(?:\w{1,3}-)?\d(?:[ -]?\d){2,9}|[A-Z0-9]{4,10}(?:-[A-Z0-9]{3,8}){0,4}|\d[A-Za-z0-9]{3,11})(?![\w])"
)
_IS_YOUR_CODE = regex.compile(
    r"(?<![\w.,/-])(?P<value>(?:[A-Z]{1,3}-)?\d{3,4}[ -]?\d{1,4}|\d{4,8})[ ]"
    r"(?:is|ist|est|es|è|é|to)[ ](?:your|dein|ihr|votre|ton|tu|su|il[ ]tuo|il[ ]suo|uw|je|jouw|o[ ]seu|seu|teu|twój"
    r"|pana|the)"
    r"(?:[ ][\p{L}\d-]{1,20}){0,4}?[ ]?(?:pass)?(?:code|código|codice|kod|pin|otp|tan|passwort|\p{L}{4,20}code)"
    r"(?!\p{L})",
    regex.IGNORECASE,
)

_SHORT_FLAG = regex.compile(
    r"(?<!\w)(?:mysql|mysqldump|mysqladmin|mariadb|sshpass|psql|redis-cli|mongo|mongosh|mongodump|ldapsearch|sqlcmd"
    r"|docker[ ]login|mosquitto_[ps]ub|ipmitool|rdesktop|evil-winrm|crackmapexec|mongorestore|influx"
    r"|clickhouse-client|pscp"
    r"|curl|zip|unzip|7z|net[ ]use|smbclient|htpasswd|wget|plink|ftp)(?=[ ])[^\n|;]{0,120}?[ ](?:-p|-w|-a|-P|-pw)[ ]?"
    r"(?P<value>\"[^\"\n]{3,80}\"|'[^'\n]{3,80}'|[^\s\"'-][^\s\"']{3,80})"
)
_FLAGS = (" -p", " -w", " -a")

_PROSE_WORDS = (
    "required optional needed mandatory missing invalid incorrect wrong valid correct changed reset expired"
    " forgotten forgot protected secure weak strong hashed encrypted stored empty blank unknown new old same different"
    " longer shorter not a an the to in on at for from with must should will can cannot please enter your my our their"
    " her his its it this that too very also always never only below above attached provided sent given shown"
    " falsch richtig ungültig erforderlich geändert abgelaufen vergessen nicht das der die ein eine bitte"
    " requis obligatoire incorrect incorrecte invalide oublié oubliée expiré modifié faux le la les un une votre"
    " requerida obligatoria incorrecta olvidada inválida caducada el los las su"
    " richiesta obbligatoria errata dimenticata scaduta il lo i gli"
    " vereist verplicht onjuist vergeten verlopen ongeldig het een de uw"
    " obrigatória incorreta esquecida inválida expirada o os as seu sua"
    " wymagane nieprawidłowe błędne zapomniane wygasło jest nie"
    " str string int bool bytes text object any char varchar number boolean field input secretstr optional union"
    " list dict option vec maybe nullable"
    " none null true false undefined yes no off password passwd pass pwd secret hidden masked"
)
_PROSE = frozenset(_PROSE_WORDS.split())
_FIELD = regex.compile(r"\p{L}+(?:[_.-]\p{L}+)+")
_SYMBOLS = "$%<{[(&*#-/\\|=+"
_GROUPS = r"[a-z0-9]{4}(?:[ ][a-z0-9]{4}){3}(?=[ \t]*(?:$|[\n\r;\"',.]))"  # as mail services issue them for programs
_IN_GROUPS = regex.compile(r"[a-z0-9]{4}(?:[ ][a-z0-9]{4}){3}")
_BARE = regex.compile(
    rf"(?P<value>{_GROUPS}|"
    r"(?:[^\s\"'`<>,;|&„“”«»]|&(?!\w{1,30}=)|[,;|](?=[^\s,;|\"'])(?![ ]?\w[\w ]{0,20}=)){1,128}+)"
)
_MIXED = regex.compile(r"[\d!@#$%^&*+=?~]|\p{Ll}\p{Lu}")


def _accepted(text: str, found: NamedValue) -> bool:
    value = found.value
    if not PASSWORD_CHARS_MIN <= len(value) <= PASSWORD_CHARS_MAX or value.casefold().strip(".:;") in _PROSE:
        return False
    if placeholder(value) or "://" in value:
        return False
    if _IN_GROUPS.fullmatch(value):
        return found.quoted or found.joint == "operator" or any(map(str.isdecimal, value))
    if found.quoted:
        return _quoted(found)
    if found.joint in ("word", "operator", "gap") and _in_words(value):
        return found.joint != "gap" or _named_network(text, found)
    if _expression(text, found) or (value[0] in _SYMBOLS and not _MIXED.search(value[1:])):
        return False
    if text.startswith("--", found.name_start):
        return True
    if _assigned(text, found):
        return True
    if found.joint == "tag" and not text.startswith("</", found.end):
        return False
    strong = len(value) >= STRONG_CHARS_MIN and any(map(str.isalnum, value)) and _MIXED.search(value) is not None
    if found.joint == "gap":
        return (
            strong and any(map(str.isdecimal, value)) and (any(map(str.isalpha, value)) or _named_network(text, found))
        )
    return strong or (found.joint in ("operator", "tag") and _alone(text, found))


def _quoted(found: NamedValue) -> bool:
    """Whether a quoted value is a password: no sentence, and no name of a field or a form."""
    value = found.value
    if " " in value.strip():
        return False
    if found.joint == "word":
        return True
    return len(value) >= 4 and (_in_words(value) or not _FIELD.fullmatch(value))


def _expression(text: str, found: NamedValue) -> bool:
    """Whether a value without quotes is an expression of source code.

    After a name in capitals, words with dots between and a digit inside are none."""
    name = text[found.name_start : found.name_start + 4]
    literal = name.isupper() and found.value.replace(".", "").isalnum() and any(map(str.isdecimal, found.value))
    return reference(found.value) and not literal


def _assigned(text: str, found: NamedValue) -> bool:
    """Whether a variable in capitals takes the value, as before a command: `PGPASSWORD=x psql`."""
    tight = text[found.start - 1] == "=" and text[found.start - 2].isupper()
    return tight and found.value.isalnum() and len(found.value) >= PASSWORD_CHARS_MIN + 1


_HYPHENS = regex.compile(r"\p{Ll}{2,15}(?:-\p{Ll}{2,15}){2,6}")
_NO_PHRASE = regex.compile(
    r"(?<!\p{L})(?:to|of|the|out|up|in|by|on|off|not|well|case|end|first|one|two|new|old|icon|mdi|form|field"
    r"|input|label"
    r"|btn|pass\w*|text|login|auth|user\w*|error|required|outline|secret|key|token|your|my|reset|current)(?!\p{L})"
)


def _in_words(value: str) -> bool:
    """Whether a value is three words or more with hyphens between, and none of them is of a field or a sentence."""
    return _HYPHENS.fullmatch(value) is not None and _NO_PHRASE.search(value) is None


_NETWORK = regex.compile(r"wi-?fi|wlan|wpa|psk", regex.IGNORECASE)


def _named_network(text: str, found: NamedValue) -> bool:
    return _NETWORK.search(text, found.name_start, found.start) is not None


def _alone(text: str, found: NamedValue) -> bool:
    """Whether a plain word stands alone at the end of its line, after a colon or `=` without a comma or a bracket."""
    before = text[found.start - 1 : found.start]
    after = text[found.end : found.end + 2]
    at_end = not after.strip(" .") or after[0] in "\n<" or after.startswith((".\n", ". "))
    return at_end and found.value.isalnum() and len(found.value) >= 4 and (before in ": =>" and before != "")


def _passwords(text: str) -> Iterator[Hit]:
    for pattern in (_PASSWORD, _CAMEL):
        for found in named_values(text, pattern, _BARE):
            if not _OTHER_FIELD.search(found.suffix) and _accepted(text, found):
                yield Hit(found.start, found.end, SCORE)
    yield from _codes(text)
    low = lower(text)
    for _, (start, end) in credential_pairs(text, low):
        yield Hit(start, end, SCORE)
    for match in matches_in(_SHORT_FLAG, text, around(low, _FLAGS, before=150, after=200)):
        start, end = match.span("value")
        if text[start] in "\"'":
            start, end = start + 1, end - 1
        if not placeholder(text[start:end]) and "://" not in text[start:end]:
            yield Hit(start, end, SCORE)
    yield from written_passwords(text, low)
    yield from conversation_passwords(text, low)


def _codes(text: str) -> Iterator[Hit]:
    """Yield PINs and one-time codes. Each holds a digit, so that only words of codes near a digit are examined."""
    parts = [
        part
        for part in around(lower(text), _CODE_WORDS, before=CODE_CHARS_AFTER, after=CODE_CHARS_AFTER)
        if _NUMBER.search(text, *part)
    ]
    if not parts:
        return
    for found in named_values(text, Name(_CODES, _CODE_WORDS), _DIGITS):
        if found.joint not in ("tag", "cell") and _code(found.value):
            yield Hit(found.start, found.end, SCORE)
    for match in matches_in(_IS_YOUR_CODE, text, parts):
        start, end = match.span("value")
        yield Hit(start, end, SCORE)


_OTHER_FIELD = regex.compile(
    r"(?:hash|salt|field|input|label|policy|min|max|length|len|file|path|url|reset|changed|expir|hint|type|name"
    r"|strength|regex|pattern|manager|validator|help|text|error|form|count|age|history|less|context|algorithm|encoder"
    r"|encryption|protected|required|prompt|callback|id|at|attempt|auth|mode|state|rule|check)",
    regex.IGNORECASE,
)


def _code(value: str) -> bool:
    digits = sum(map(str.isdecimal, value))
    return digits >= 3 and not placeholder(value)


def recognisers() -> tuple[Recogniser, ...]:
    return (Recogniser("PASSWORD", _passwords),)
