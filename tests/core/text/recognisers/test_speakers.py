"""Speakers of conversations who write their names in small letters, and other words before a colon."""

from recogniser_kit import finds
from table_kit import texts

ALONE = """
gio: raga stasera || kasia: idziemy dzisiaj? || basti: bin gleich da || lotte: ik kom later || javi: vale tío
dudu: bora hoje || jess: see you soon || manon: on y va || marti: io ci sono || zosia: jasne, już idę
steffi: danke dir || pepe: voy para allá || tiago: já chego || sanne: wat gezellig || clem: trop bien ça
katie: omg really? || wojtek: spoko, będę || chiara: arrivo tra poco || nacho: nos vemos luego || olli: moin moin
"""
TOGETHER = [
    ("kiki_91: who is in?\nblaze: me lol\nkiki_91: cool, see you", "kiki_91 blaze kiki_91"),
    ("zorro: kommst du mit?\nkrümel: ja klar\nzorro: super, bis dann", "zorro krümel zorro"),
    ("[21:03] <frosty> anyone there\n[21:04] <dr.wu> hey", "frosty dr.wu"),
    ("[21:03] frosty: anyone there?\n[21:04] dr.wu: hey there", "frosty dr.wu"),
    ("12/05/23, 21:03 - pixie: hola guapa\n12/05/23, 21:04 - tronco: qué tal?", "pixie tronco"),
    ("21:03 mops: ciao a tutti\n21:04 riccio: come va?", "mops riccio"),
    ("bobek: cześć wszystkim\nmysza: hej\nbobek: co robicie?", "bobek mysza bobek"),
    ("pixel: tu viens ce soir ?\nminou: oui grave\npixel: cool à toute", "pixel minou pixel"),
    ("fofa: você vem?\nbidu: tô chegando\nfofa: beleza então", "fofa bidu fofa"),
    ("kat: anyone up for lunch\ndom: yes!", "kat dom"),
    ("fritzi: kann jemand kommen?\nopa: mach ich", "fritzi opa"),
    ("duda: cadê você?\nleco: chegando", "duda leco"),
    ("zola: u free tonight?\nremi: nope, sorry", "zola remi"),
    ("jp: lgtm\nmk: merging", "jp mk"),
    ("rob: pushed the fix\nana.p: thanks", "rob ana.p"),
    ("dex: lol what\nfay: idk", "dex fay"),
    ("zou: t'as vu le match ?\nnico: ouais", "zou nico"),
    ("paqui: vienes?\nchus: ya voy", "paqui chus"),
    ("ania: gdzie jesteś?\nstasio: w domu", "ania stasio"),
    ("[18:44] leo: dai\n[18:45] ila: ok", "leo ila"),
    ("<nell> hi all\n<griff> hello nell", "nell griff"),
    ("muis: ga je mee?\nbeer: ja leuk\nmuis: tot zo dan", "muis beer muis"),
]
NONE = r"""
todo: buy some milk || note: this is important || hinweis: das ist neu || error: no such file here || fix: a typo
name: my app\nversion: 1.0\ndescription: a thing that you use\nauthor: me || max: the maximum value || re: your mail
fix: typo in readme\nfeat: add you\nfix: another thing || sched: fix the thing\nmm: add a bar\nsched: one more
host: localhost\nport: 8080\nhost: other || q: what is it?\na: a thing\nq: and this?\na: no idea
assistant: how are you?\nuser: are you fine?\nassistant: lol || bash: foo: command not found || nginx: started ok
en: hello world\nde: hallo welt\nen: how are you? || kernel: usb 1-1: new device\nsshd: hi\n
https://example.org: yes || ingredients: two eggs || color: red\nsize: large\n
apiVersion: v1\nkind: Pod\nmetadata: none || anna: 12 || ben: true || <div> you and i </div>\n<span> hi </span>
status: open\nowner: yes || summary: we shipped it\nnext: ok || caption: hello\nalt: hi there || en: hi\nde: hallo
agente: hola\ncliente: hola || domanda: quanto costa?\nrisposta: sì || sched: fix it\nmm: add a bar || std::string x
case 1: return ok || lisa: || key: value of you
"""


def test_a_given_name_before_words_is_a_speaker() -> None:
    for line in texts(ALONE):
        name = line.partition(":")[0]
        assert finds("USERNAME", line) == [name], line
        assert finds("USERNAME", f"[21:03] {line}\nsome words in a line of their own\n") == [name], line


def test_speakers_who_take_turns_are_found() -> None:
    for text, names in TOGETHER:
        assert finds("USERNAME", text) == names.split(), text
        assert finds("USERNAME", f"The log of today:\n\n{text}\n\nNo more.") == names.split(), text


def test_other_words_before_a_colon_are_left() -> None:
    for text in texts(NONE):
        assert finds("USERNAME", text) == [], text
