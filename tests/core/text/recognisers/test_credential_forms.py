"""Passwords and keys in sentences, tables, commands, statements and calls; and forms that hold none."""

from recogniser_kit import finds
from table_kit import marked, texts

DRAWN = "a8Kd02mLq9" + "XzR4tPw7bb" + "Q1c2v3"
PUT_TOGETHER = [
    ("SECRET", f"INSERT INTO clients (id, client_secret) VALUES (1, '{DRAWN[:18]}')", DRAWN[:18]),
    ("SECRET", f"jwt.verify(token, '{DRAWN[:18]}')", DRAWN[:18]),
    ("SECRET", f'hmac.new(b"{DRAWN[:18]}", msg)', DRAWN[:18]),
    ("SECRET", f'SigningKey: []byte("{DRAWN[:20]}")', DRAWN[:20]),
    ("SECRET", f'weatherKey = "{DRAWN[:26]}"', DRAWN[:26]),
]
FOUND = {
    "PASSWORD": r"""
the temp password for the new laptop is «Otter-Moss-19» || initial password: «Fjelltopp7» || root pw -> «8hGt!kk2»
pass → «Granite#5» || router pass is «bluebird77» || sudo password should be «Quartz_11»
vpn password was reset to «Trellis#44» || PGPASSWORD=«lemontree» psql -h db -U app
sshpass -p '«Nimbus 22»' ssh deploy@host || <password>«Marmot.81»</password>
<property name="password" value="«Marmot81»"/> || <add key="DbPassword" value="«Marmot81»"/>
spring.datasource.password=«marmotte» || password = "«marmot-and-badger»"
CREATE ROLE app LOGIN PASSWORD '«orchid-lane-9»'; || ALTER USER app WITH ENCRYPTED PASSWORD '«orchid9»';
CREATE USER x IDENTIFIED WITH mysql_native_password BY '«orchid9x»'; || requirepass «quietriver88»
machine git.example login deploy password «Brass-Key-8» || net user backup «Sommer2024!» /add
echo "deploy:«Brass-Key-8»" | chpasswd || mosquitto_sub -h b -u s -P «Brass8Key» -t x
xfreerdp /v:host /u:jo /p:«Brass8Key» || auth=("jo", "«Brass8Key»") || smtp.login("jo@x.example", "«Brass8Key»")
conn = DriverManager.getConnection(url, "sa", "«Brass8Key»"); || name,user,password\nnas,jo,«Brass8Key»\n
Das Passwort für den Drucker lautet «Igel-77» || Zugang: admin / «Igel77x» || WLAN-Passwort ist «sonnenblume5»
WLAN Schlüssel: «4471-2290-1180» || le mot de passe admin est «Hérisson12» || mdp : «Herisson12»
la contraseña nueva es «Erizo_2024» || la clave del wifi es «erizo2024» || la password è «Riccio#9x»
la chiave del wifi è «riccio2024» || het wachtwoord is nu «Egel_2024» || wachtwoord veranderd in «Egel_2024»
a senha nova é «ourico2024» || palavra-passe: «ourico2024» || nowe hasło to «Jez_2024» || hasło: «jezyk2024»
Der Code fürs Tor ist «4471» || PIN: «4471» || PUK «12345678» || le code de la porte c'est «44B71»
the passcode's «447112» || Sicherheitsfrage: erstes Tier, Antwort: «Bello» || new pw: "«marmalade»"
docker login -u jo -p «Brass8Key» reg.example || ansible_become_pass: «Brass8Key» || MYSQL_ROOT_PASSWORD: «brasskey»
kubectl create secret generic db --from-literal=password=«Brass8Key» || ENV DB_PASS «brasskey9»
wifi for guests is Attic_5G / «mountain7goat»
""",
    "EMPLOYEE_ID": "Payroll ID «0041772», site 4",
}
NOT_FOUND = {
    "PASSWORD": r"""
password is required || password: str || the password was changed || Enter your PIN code || password: ${DB_PASSWORD}
password = os.environ["DB_PASSWORD"] || password = get_password(user) || password: process.env.DB_PASS
const [password, setPassword] = useState("") || The password is state-of-the-art and up-to-date.
wifi 802.11ac and wifi 6e are fast || pass python3 to the script || pass the list2 to f || pw = getpass("Password: ")
Das Passwort ist zu kurz || Das Passwort wurde geändert || le mot de passe est obligatoire || mot de passe oublié ?
la contraseña es incorrecta || la clave es trabajar mucho || la clave del éxito || la password è scaduta
het wachtwoord is verlopen || a senha é inválida || hasło jest nieprawidłowe || name,user,password
| Field | Password |\n| --- | --- |\n| type | string |\n| required | true |
def login(user, password): return user.login(user, "x") || form.login("submit", "click here") || admin / user
root / 2024-05-01 || The victim was identified by neighbours yesterday. || AUTH failed
i18n: {password: "form.password.label"} || placeholder="password" name="password"
type="password" class="form-control" || passwordField.setText("hello")
The code for the safe pattern is 12 lines long || cacheKey = "user_profile_settings_page" || password hash: bcrypt
The safe opens with a click || security question: what is your pet's name? || token = jwt.decode(token, key)
PASSWORD_RESET_TIMEOUT = 3600 || min_password_length: 12 || password-policy: strong || new pw policy is 12 chars
the www server || SELECT password FROM users WHERE id = 1 || password: Option<String> || login(username, password)
admin:x:1000:1000::/home/admin:/bin/bash || boarding pass is valid || bus pass was 40€ || code de la route 2024
el código de la puerta lógica || http://pass.example/a || PIN 8 of the chip is GND
""",
    "PHONE_NUMBER": "0x10: c7 45 fc 00 00 00 00 eb 1a || ratio[0.1255-0.1266] 0/0/1/43/44/200 batch 20250314",
    "IN_AADHAAR": "Aadhaar? no: 202502141130",
    "URL": "url: sonar.login=x and helm.sh/chart: mercury-1.4.2, app.kubernetes.io/managed-by: Helm",
}


def test_a_credential_is_found() -> None:
    table = [(entity, text, value) for entity, block in FOUND.items() for text, value in marked(block)]
    for entity, text, value in (*table, *PUT_TOGETHER):
        assert finds(entity, text)[:1] == [value], text


def test_what_only_looks_like_a_credential_is_left_alone() -> None:
    for entity, block in NOT_FOUND.items():
        for text in texts(block):
            assert finds(entity, text) == [], text


def test_every_row_of_a_table_is_read() -> None:
    rows = "| nas | jo | Brass8Key |\n| tv | al | Iron9Key |\n"
    assert finds("PASSWORD", f"| Host | User | Kennwort |\n|---|---|---|\n{rows}") == ["Brass8Key", "Iron9Key"]
    statement = "INSERT INTO users (name, password) VALUES ('jo', 'Brass8Key'), ('al', 'Iron9Key');"
    assert finds("PASSWORD", statement) == ["Brass8Key", "Iron9Key"]
