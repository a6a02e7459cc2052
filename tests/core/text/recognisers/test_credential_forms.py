"""Passwords and keys in sentences, tables, commands, statements and calls; and forms that hold none."""

from core.text.lists import AllowLists
from core.text.policy import MaskPolicy
from core.text.sanitize import inspect

DRAWN = "a8Kd02mLq9" + "XzR4tPw7bb" + "Q1c2v3"
FOUND = [
    ("PASSWORD", "the temp password for the new laptop is Otter-Moss-19", "Otter-Moss-19"),
    ("PASSWORD", "initial password: Fjelltopp7", "Fjelltopp7"),
    ("PASSWORD", "root pw -> 8hGt!kk2", "8hGt!kk2"),
    ("PASSWORD", "pass → Granite#5", "Granite#5"),
    ("PASSWORD", "router pass is bluebird77", "bluebird77"),
    ("PASSWORD", "sudo password should be Quartz_11", "Quartz_11"),
    ("PASSWORD", "vpn password was reset to Trellis#44", "Trellis#44"),
    ("PASSWORD", "PGPASSWORD=lemontree psql -h db -U app", "lemontree"),
    ("PASSWORD", "sshpass -p 'Nimbus 22' ssh deploy@host", "Nimbus 22"),
    ("PASSWORD", "<password>Marmot.81</password>", "Marmot.81"),
    ("PASSWORD", '<property name="password" value="Marmot81"/>', "Marmot81"),
    ("PASSWORD", '<add key="DbPassword" value="Marmot81"/>', "Marmot81"),
    ("PASSWORD", "spring.datasource.password=marmotte", "marmotte"),
    ("PASSWORD", 'password = "marmot-and-badger"', "marmot-and-badger"),
    ("PASSWORD", "CREATE ROLE app LOGIN PASSWORD 'orchid-lane-9';", "orchid-lane-9"),
    ("PASSWORD", "ALTER USER app WITH ENCRYPTED PASSWORD 'orchid9';", "orchid9"),
    ("PASSWORD", "CREATE USER x IDENTIFIED WITH mysql_native_password BY 'orchid9x';", "orchid9x"),
    ("PASSWORD", "requirepass quietriver88", "quietriver88"),
    ("PASSWORD", "machine git.example login deploy password Brass-Key-8", "Brass-Key-8"),
    ("PASSWORD", "net user backup Sommer2024! /add", "Sommer2024!"),
    ("PASSWORD", 'echo "deploy:Brass-Key-8" | chpasswd', "Brass-Key-8"),
    ("PASSWORD", "mosquitto_sub -h b -u s -P Brass8Key -t x", "Brass8Key"),
    ("PASSWORD", "xfreerdp /v:host /u:jo /p:Brass8Key", "Brass8Key"),
    ("PASSWORD", 'auth=("jo", "Brass8Key")', "Brass8Key"),
    ("PASSWORD", 'smtp.login("jo@x.example", "Brass8Key")', "Brass8Key"),
    ("PASSWORD", 'conn = DriverManager.getConnection(url, "sa", "Brass8Key");', "Brass8Key"),
    ("PASSWORD", "| Host | User | Password |\n| --- | --- | --- |\n| nas | jo | Brass8Key |\n", "Brass8Key"),
    ("PASSWORD", "name,user,password\nnas,jo,Brass8Key\n", "Brass8Key"),
    ("PASSWORD", "Das Passwort für den Drucker lautet Igel-77", "Igel-77"),
    ("PASSWORD", "Zugang: admin / Igel77x", "Igel77x"),
    ("PASSWORD", "WLAN-Passwort ist sonnenblume5", "sonnenblume5"),
    ("PASSWORD", "WLAN Schlüssel: 4471-2290-1180", "4471-2290-1180"),
    ("PASSWORD", "le mot de passe admin est Hérisson12", "Hérisson12"),
    ("PASSWORD", "mdp : Herisson12", "Herisson12"),
    ("PASSWORD", "la contraseña nueva es Erizo_2024", "Erizo_2024"),
    ("PASSWORD", "la clave del wifi es erizo2024", "erizo2024"),
    ("PASSWORD", "la password è Riccio#9x", "Riccio#9x"),
    ("PASSWORD", "la chiave del wifi è riccio2024", "riccio2024"),
    ("PASSWORD", "het wachtwoord is nu Egel_2024", "Egel_2024"),
    ("PASSWORD", "wachtwoord veranderd in Egel_2024", "Egel_2024"),
    ("PASSWORD", "a senha nova é ourico2024", "ourico2024"),
    ("PASSWORD", "palavra-passe: ourico2024", "ourico2024"),
    ("PASSWORD", "nowe hasło to Jez_2024", "Jez_2024"),
    ("PASSWORD", "hasło: jezyk2024", "jezyk2024"),
    ("PASSWORD", "Der Code fürs Tor ist 4471", "4471"),
    ("PASSWORD", "PIN: 4471", "4471"),
    ("PASSWORD", "PUK 12345678", "12345678"),
    ("PASSWORD", "le code de la porte c'est 44B71", "44B71"),
    ("PASSWORD", "the passcode's 447112", "447112"),
    ("PASSWORD", "Sicherheitsfrage: erstes Tier, Antwort: Bello", "Bello"),
    ("PASSWORD", 'new pw: "marmalade"', "marmalade"),
    ("PASSWORD", "docker login -u jo -p Brass8Key reg.example", "Brass8Key"),
    ("PASSWORD", "ansible_become_pass: Brass8Key", "Brass8Key"),
    ("PASSWORD", "ansible_ssh_pass=Brass8Key", "Brass8Key"),
    ("PASSWORD", "MYSQL_ROOT_PASSWORD: brasskey", "brasskey"),
    ("PASSWORD", "kubectl create secret generic db --from-literal=password=Brass8Key", "Brass8Key"),
    ("PASSWORD", "ENV DB_PASS brasskey9", "brasskey9"),
    (
        "PASSWORD",
        "INSERT INTO users (id, name, password) VALUES (1, 'jo', 'Brass8Key'), (2, 'al', 'Iron9Key');",
        "Brass8Key",
    ),
    ("SECRET", f"INSERT INTO clients (id, client_secret) VALUES (1, '{DRAWN[:18]}')", DRAWN[:18]),
    ("SECRET", f"jwt.verify(token, '{DRAWN[:18]}')", DRAWN[:18]),
    ("SECRET", f'hmac.new(b"{DRAWN[:18]}", msg)', DRAWN[:18]),
    ("SECRET", f'SigningKey: []byte("{DRAWN[:20]}")', DRAWN[:20]),
    ("SECRET", f'weatherKey = "{DRAWN[:26]}"', DRAWN[:26]),
    ("PASSWORD", "wifi for guests is Attic_5G / mountain7goat", "mountain7goat"),
    ("EMPLOYEE_ID", "Payroll ID 0041772, site 4", "0041772"),
]
NOT_FOUND = [
    ("PASSWORD", "password is required"),
    ("PASSWORD", "password: str"),
    ("PASSWORD", "the password was changed"),
    ("PASSWORD", "Enter your PIN code"),
    ("PASSWORD", "token bucket"),
    ("PASSWORD", "password: ${DB_PASSWORD}"),
    ("PASSWORD", 'password = os.environ["DB_PASSWORD"]'),
    ("PASSWORD", "password = get_password(user)"),
    ("PASSWORD", "password: process.env.DB_PASS"),
    ("PASSWORD", 'const [password, setPassword] = useState("")'),
    ("PASSWORD", "The password is case-sensitive."),
    ("PASSWORD", "The password is state-of-the-art and up-to-date."),
    ("PASSWORD", "wifi 802.11ac and wifi 6e are fast"),
    ("PASSWORD", "pass python3 to the script"),
    ("PASSWORD", "pass the list2 to f"),
    ("PASSWORD", 'pw = getpass("Password: ")'),
    ("PASSWORD", "Das Passwort ist zu kurz"),
    ("PASSWORD", "Das Passwort wurde geändert"),
    ("PASSWORD", "le mot de passe est obligatoire"),
    ("PASSWORD", "mot de passe oublié ?"),
    ("PASSWORD", "la contraseña es incorrecta"),
    ("PASSWORD", "la clave es trabajar mucho"),
    ("PASSWORD", "la clave del éxito"),
    ("PASSWORD", "la password è scaduta"),
    ("PASSWORD", "het wachtwoord is verlopen"),
    ("PASSWORD", "a senha é inválida"),
    ("PASSWORD", "hasło jest nieprawidłowe"),
    ("PASSWORD", "name,user,password"),
    ("PASSWORD", "| Field | Password |\n| --- | --- |\n| type | string |\n| required | true |"),
    ("PASSWORD", 'def login(user, password): return user.login(user, "x")'),
    ("PASSWORD", 'form.login("submit", "click here")'),
    ("PASSWORD", "admin / user"),
    ("PASSWORD", "root / 2024-05-01"),
    ("PASSWORD", "identified by the police"),
    ("PASSWORD", "The victim was identified by neighbours yesterday."),
    ("PASSWORD", "AUTH failed"),
    ("PASSWORD", 'i18n: {password: "form.password.label"}'),
    ("PASSWORD", 'placeholder="password" name="password"'),
    ("PASSWORD", 'type="password" class="form-control"'),
    ("PASSWORD", 'passwordField.setText("hello")'),
    ("PASSWORD", "The code for the safe pattern is 12 lines long"),
    ("PASSWORD", 'cacheKey = "user_profile_settings_page"'),
    ("PASSWORD", "password hash: bcrypt"),
    ("PASSWORD", "The safe opens with a click"),
    ("PASSWORD", "security question: what is your pet's name?"),
    ("PASSWORD", "token = jwt.decode(token, key)"),
    ("PASSWORD", "PASSWORD_RESET_TIMEOUT = 3600"),
    ("PASSWORD", "min_password_length: 12"),
    ("PASSWORD", "password-policy: strong"),
    ("PASSWORD", "new pw policy is 12 chars"),
    ("PASSWORD", "the www server"),
    ("PASSWORD", "SELECT password FROM users WHERE id = 1"),
    ("PASSWORD", "password: Option<String>"),
    ("PASSWORD", "login(username, password)"),
    ("PASSWORD", "admin:x:1000:1000::/home/admin:/bin/bash"),
    ("PASSWORD", "The seed phrase, as a rule: never share it"),
    ("PASSWORD", "boarding pass is valid"),
    ("PASSWORD", "bus pass was 40€"),
    ("PASSWORD", "code de la route 2024"),
    ("PASSWORD", "el código de la puerta lógica"),
    ("PASSWORD", "http://pass.example/a"),
    ("PASSWORD", "PIN 8 of the chip is GND"),
    ("PHONE_NUMBER", "0x10: c7 45 fc 00 00 00 00 eb 1a"),
    ("PHONE_NUMBER", "ratio[0.1255-0.1266] 0/0/1/43/44/200 batch 20250314"),
    ("IN_AADHAAR", "Aadhaar? no: 202502141130"),
    ("URL", "url: sonar.login=x and helm.sh/chart: mercury-1.4.2, app.kubernetes.io/managed-by: Helm"),
    ("SECRET", "The password is state-of-the-art and up-to-date."),
]


def finds(entity: str, text: str) -> list[str]:
    found = inspect(text, MaskPolicy(entities=(entity,)), AllowLists())
    return [found.text[mask.start : mask.end] for mask in found.masks]


def test_a_credential_is_found() -> None:
    for entity, text, value in FOUND:
        assert finds(entity, text)[:1] == [value]


def test_what_only_looks_like_a_credential_is_left_alone() -> None:
    for entity, text in NOT_FOUND:
        assert finds(entity, text) == []


def test_every_row_of_a_table_is_read() -> None:
    rows = "| nas | jo | Brass8Key |\n| tv | al | Iron9Key |\n"
    assert finds("PASSWORD", f"| Host | User | Kennwort |\n|---|---|---|\n{rows}") == ["Brass8Key", "Iron9Key"]
    statement = "INSERT INTO users (name, password) VALUES ('jo', 'Brass8Key'), ('al', 'Iron9Key');"
    assert finds("PASSWORD", statement) == ["Brass8Key", "Iron9Key"]
