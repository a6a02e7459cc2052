"""What looks like personal data or a secret and is none stays. What is one beside it is masked.

Each table has texts of one kind. In the tables `..._FOUND` the value stands between `«` and `»`.
"""

from table_kit import plain, texts

from core.text.mask_entity import Tagged, find_tagged
from core.text.mask_words import AllowLists
from core.text.policy import MaskPolicy
from core.text.sanitize import inspect

SLICES = """
values[1::2] || last = items[-1:] + items[::2] + items[3::] || x = C::D(1) || Ad::Feed.new(params) || use a::b;
class Fade::Bad < Ad::Base || evens = numbers[0::2]; odds = numbers[1::2] || rows[10::5] liefert jede fünfte Zeile
tab[2::3] prend un élément sur trois || lista[1::4] toma uno de cada cuatro || std::cafe::Bee b = Abba::Dada();
df.iloc[5::10, 2::2] || matrix[0::2][1::2] || [values[2000::5]] || Dead::Beef is the namespace of the mock
case Fa::Ce then 1 || ::Bad and ::Feed are global constants || B::A < C::E || beads[::2] || const A::B = 3;
{"expr": "values[1::2]", "type": "C::D"} || expr,type || 2024:: the year of the change
"""
VERSION_6_FOUND = """
peer «2001:db8::1» is down || values[1::2] came from «2001:db8:0:1::5» || gateway «fe80::1»
ping «fe80::1%eth0» works || http server on [«2606:4700:4700::1111»]:443
route «2001:db8::/32» via «fd12:3456:789a::1» || mapped «::ffff:192.0.2.128» address
mapped «::ffff:c0a8:7a01» address || connect from unknown[«2001:db8:85a3::8a2e:370:7334»]
full «2001:0db8:85a3:0000:0000:8a2e:0370:7334» form || nat64 «64:ff9b::198.51.100.7» prefix
{"remote": "«2a02:8108:9640::c2»"} || Die Adresse «2A00:1450:4001:82A::200E» gehört uns
resolver «2620:fe::fe», used at home || fd = open("«fd00::a1b2»")
"""
NUMBERED = """
clause 4.2.1.3 || log4j 2.17.1.0 || See section 4.2.1.3 and section 12.4.2.1 of the annex.
Siehe Abschnitt 10.2.1.3 und Ziffer 4.2.1.1 || conformément à l'article 4.2.1.3 du contrat
según la cláusula 3.1.4.2 del contrato || ai sensi dell'articolo 7.1.2.4 || zie paragraaf 3.2.1.4 en hoofdstuk 5.1.1.2
nos termos da cláusula 8.2.1.1 || zgodnie z punktem 4.2.1.3 umowy || zobacz rozdział 10.1.2.3
§ 4.2.1.3 gilt entsprechend || sections 10.2.1.3, 10.2.1.4 and 10.2.1.5
The OID 1.3.6.1.4.1.311.21.20 names the template. || snmpwalk reads 1.3.6.1.2.1.1.5.0 || urn:oid:2.16.840.1.113883.3.4
Upgrade jackson-databind to 2.13.4.2 today || rails (5.2.4.3) needs nokogiri 1.10.9.1 || spring-boot==2.7.18.1
assembly 4.0.0.0, Culture=neutral || pip install torch==2.1.0.1
  implementation "org.apache.logging.log4j:log4j-core:2.17.1.0"
Mozilla/5.0 (X11) Electron/28.0.7.2 Chrome/120.0.0.0 Safari/537.36 || guava-31.1.0.2.jar and app_1.2.3.4_amd64.deb
version 192.168.1.4 and wersja 12.200.1.4 || 4.2.1.3 Requirements for the retention of records
{"name": "log4j", "version": "2.17.1.0"} || {"log4j": "2.17.1.0", "clause": "4.2.1.3"}
2024-05-03 10:00:01 INFO started billing 2.17.1.0 in 3 s || we rolled billing back from 2.17.1.0 to 2.16.0.1
"""
VERSION_4_FOUND = """
2024-05-03 10:00:01 INFO request by «203.0.113.9» took 3 s
«84.23.112.5» - - [03/May/2024:10:00:01 +0000] "GET / HTTP/1.1" 200
Accepted password for invalid user from «5.9.12.8» port 22 ssh2 || clause 4.2.1.3 was read from «198.51.100.7»
log4j 2.17.1.0 runs on «10.0.0.12» || nameserver «8.8.8.8» || dns: «1.1.1.1» || {"ip": "«5.9.12.8»"}
{"client": "«23.4.12.9»"} || tcpdump: «192.168.1.10».54321 > «10.0.0.12».53: Flags [S] || ssh root@«2.17.1.20»
http proxy «4.4.4.4»:3128 || route «5.9.12.0/24» dev eth0 || - «8.8.4.4» || Die IP-Adresse lautet «9.9.9.9».
l'adresse «2.3.4.5» est bloquée || Step 2 - «192.168.1.4» answers || Please allow «52.14.3.9» again
"""
EVERY_MACHINE = """
127.0.0.1 || 0.0.0.0 || ::1 || bind 127.0.0.1:6379 || listen 0.0.0.0:80 || listen [::]:80 and [::1]:443
127.0.0.53 is the stub resolver || 127.0.1.1 myhost || ::1 localhost ip6-localhost || 127.0.0.0/8 and ::1/128
allow from 0.0.0.0/0 || HOST=127.0.0.1 || 255.255.255.255 || netmask 255.255.252.0
proxy_pass http://127.0.0.1:9000; || {"host": "127.0.0.1", "port": 5432} || {"bind": "0.0.0.0", "v6": "::1"}
server läuft auf 127.0.0.1 || le serveur écoute sur 0.0.0.0 || el servidor está en 127.0.0.1
il server ascolta su 0.0.0.0 || de server draait op 127.0.0.1 || o servidor corre em 127.0.0.1
serwer działa na 127.0.0.1 || 2024-05-03 10:00:01 INFO Uvicorn running on 0.0.0.0:8000
curl http://127.0.0.1:8000/health
::ffff:127.0.0.1 - - "GET /health" || 0:0:0:0:0:0:0:1 || host,port
"""
REFERENCES = """
CVE-2024-3094 contact the vendor || INV-2024-30941. Call us || inv-2024-30941. Call us
Faktura FV/2024/11/0912. Zadzwoń || bug 1820931 contact || ADR-0042-2024 call || Lieferschein 20240611-22 Tel.
Fixed in CVE-2021-44228, call the vendor's support. || Rechnung INV-2024-30941. Rufen Sie uns an
facture FA-2024-30941. Appelez-nous || factura FC-2024-30941. Llámenos || fattura FT-2024-30941. Chiamateci
factuur FC-2024-30941. Bel ons || fatura FT-2024-30941. Ligue || faktura FV-2024-30941. Proszę dzwonić
CVE 2024-3094 contact the vendor || RHSA-2024-118. Contact support || Your case CS-20240311. We will call back.
PO-45000123. Phone support is closed. || JIRA-1234567: call the API twice
Ticket SR-2024-118834. Reach the desk first. || RFC-2119-2023 contact the editor || ISO-2022-1234. Call for papers
KB5034441 call the vendor || DOI 10.1000/182, contact the editor
{"cve": "CVE-2024-3094", "contact": "vendor"} || cve,action || CVE-2024-3094 und CVE-2023-38545, Kontakt: Hersteller
2024-05-03 WARN CVE-2024-3094 found, phone home disabled || Order 2024-30941. Call us when it arrives.
"""
SUMS = """
+100 000 000 || +100 000 000 euros || +1 000 000 000 || +250 000 000 views || +100.000.000 || +100000000
+10 000 000 Nutzer || plus +200 000 000 utilisateurs || +300 000 000 usuarios || +400 000 000 utenti
+500 000 000 gebruikers || +600 000 000 utilizadores || +700 000 000 użytkowników || +800 000 000
revenue: +120 000 000 || {"delta": "+100 000 000"} || delta,+100 000 000 || +2 500 000 || +1 250 000
+150 000 000 in 2024 || growth of +3 141 592 || +12 500 000 views || growth +180 000 000 (12%) || +240 000 000 shares
+10 000 000 000 kWh || 2024-05-03 INFO balance +100 000 000
"""
MACHINE_NUMBERS = """
pid 2125551234 || thread 4155550199 stopped || [2125551234] started || run_id=9175550162 || worker-2125551234
cycle 7025550199 || bytes_sent: 9085550141 || lock 4255550166 held || registro 3055550177 || wątek 2165550188
kernel: [4155550122] oops || ino 2125550111 || cursor at 9175550101 || blk_4155550199 || "seq": 2135550191
bajty 6465550111
process 2125551234 exited || offset 2125551234 || size: 2125551234
2125551234 bytes || read 2125551234 rows || seed = 2125551234 || timestamp 2125551234 || ts=2125551234
{"pid": 2125551234} || {"offset": 2125551234, "length": 3105551234} || job 2125551234 failed
heap 2125551234 used || Dateigröße 2125551234 || rozmiar pliku 2125551234 || duration_ns=2125551234
thread 2125551234 waits || request 2125551234 took 3 ms || Prozess 2125551234 beendet || processus 2125551234 terminé
proceso 2125551234 terminado || processo 2125551234 terminato || proces 2125551234 beëindigd || tamanho 2125551234
rozmiar 2125551234 || liczba 2125551234 || 2125551234 Sekunden
2024-05-03 10:00:01 ERROR worker pid 2125551234 killed || order_id=2125551234
"""
PHONES_FOUND = """
CVE-2024-3094: contact the vendor at «+1 212-555-0147» || INV-2024-30941. Call us: «030 1234567»
Rechnung INV-2024-30941, Tel. «0171 1234567» || order 4711, phone «2125551234» || pid 4711, call «2125551234»
contact: «2125551234» || NHS number «4255550166» || she is at «2125551234» || [«212-555-1234»]
{"phone": "«2125551234»"} || phone=«2024-3094» || Call «2024-30941» now || Tel. «2024-3094»
Handy: «0171 2345678», pid 2125551234 || téléphone «06 12 34 56 78» (dossier CVE-2024-3094) || teléfono «612 345 678»
«+48 501 234 567» || «+34 612 345 678» || «+351 912 345 678» || «+44 20 7946 0958» || «+1 415 555 2671»
INV-2024-30941 «(212) 555-0147» || Ring me at «+49 151 12345678» about the 2125551234 bytes
"""
EMPTY_VALUES = r"""
DB_PASSWORD=\nDB_HOST=localhost || DB_PASSWORD=\r\nDB_HOST=localhost\r\n
DB_PASSWORD=\n\nDB_HOST=db.internal.example1\n || MYSQL_ROOT_PASSWORD=\nMYSQL_DATABASE=app2024\n
export DB_PASSWORD=\nexport DB_NAME=shop_2024 || password:\nhost: db-01 || password: \n  host: db-01
passwort =\nbenutzer_modus = 7x || mot de passe :\nfichier: a1-b2 || contraseña:\nservidor: srv-01
wachtwoord:\npoort: 5432a || senha:\nservidor: srv-02 || hasło:\nserwer: srv-03
PGPASSWORD=\n# the next one is for tests\nPGPORT=5433 || API_SECRET=\nAPI_URL_PATH=/v1/2024-05
SECRET_KEY=\nDEBUG=True1 || password=\n[server]\nport=8080 || DB_PASS=\nDB_POOL_SIZE=10\nDB_SSL=require
"password":\n"mode": "a1" || REDIS_PASSWORD=\nREDIS_DB=db0_cache\nREDIS_TTL=3600s || DB_USER=\nDB_NAME=shop_2024
spring.datasource.password=\nspring.datasource.driver=org.h2.Driver1
"""
VALUES_FOUND = r"""
DB_PASSWORD=«Fjord77x»\nDB_HOST=localhost || DB_HOST=localhost\nDB_PASSWORD=«Fjord77x»\n
DB_PASSWORD=\nDB_HOST=localhost\nADMIN_PASSWORD=«Fjord77x» || Password:\n«Fjord77x!»\nRegards
password:\n  «Lynx42-pine»\n || password: >\n  «Lynx42-pine»\n || passwort:\n«Lynx42-pine»
mot de passe :\n«Lynx42-pine» || contraseña:\n«Lynx42-pine» || hasło:\n«Lynx42-pine»
export DB_PASSWORD=«Fjord77x»\nexport DB_HOST=x || const password =\n  "«Lynx42-pine»";
password=«Fjord77x»\n[server]\nport=8080 || "password":\n  "«Fjord77x»",\n"mode": "a1"
"""

# What the tagger takes for the name of a person: between `«` and `»`.
PUBLIC_NAMES = """
He has «Lewy» body dementia. || «Sjögren» was ruled out || maladie de «Charcot»
«Cushing»'s, Addison's and Wilson's disease || choroba «Leśniowskiego-Crohna» || «Babinski» negative
«Lexapro», Keppra || nimmt «Marcumar» und Ramipril || toma «Nolotil y Sintrom» || Raum «Albert Einstein» ist frei
hall «Grace Hopper» is free || the «Nelson Mandela hall» || lycée «Victor Hugo»
«Thomas Jefferson Middle School» || «Friedrich-Schiller»-Universität Jena || szkoła im. «Adama Mickiewicza»
«Anna Karenina» is long. || The Talented Mr. «Ripley» is a novel. || vimos «Carmen» en el teatro
«Bee»::Dee raised NameError || the film "«Erin Blue»" || her novel "«Clara»'s War" || the series "«Ted Lasso»"
den Film „«Nikita»“ || der Krimi „Der Tod des Herrn «Meier»“ || le livre “Les Malheurs de «Sophie»”
la película "Volver a «Elena»" || il romanzo "«Zeno Cosini»" || het boek "«Jip» en Janneke"
a peça "«Frei Luís de Sousa»"
piosenka „«Małgośka»” || «Sjögren»'s, Raynaud's and Hashimoto's || «Guillain-Barré» after infection
lecture hall «Xanadu»
Sala riunioni «Bianchi» || lycée «Victor»-Hugo || salle: «Turing» || «Stevens-Johnson» syndrome || happy-gloomy-«fermi»
«domanda»: quanto costa?
«jackson» 2.13.4 || mit «jenkins» 2.440.1 und gerrit 3.9.1 || «hugo» v0.121.2 klappt nicht || «jetty» 11.0.15
"""
PERSONS_FOUND = """
a book by "«Erin Blue»" || "«Erin Blue»" saw the film || the book of «Erin Blue» || hall of «Erin Blue» || «anna»: hi
anna-«fermi» || lecture hall «Erin Blue» || Mr. «Parkinson» test results || Herr «Crohn» hat angerufen
«Crohn» has a dog || M. «Alzheimer» est arrivé
«Peter Crohn» has Crohn's disease || «Murphy» test results are back || «Lena Lexa» takes Lexapro
«Lena Brandt» booked the hall Albert Einstein || My neighbour «Thomas Mann» has a dog. || «Carmen» llamó ayer
«Ripley» called
«anna» 12.05.1984 || «anna» 3.11.98 geboren || «anna» 12.30 Uhr || «Anna» 1.2.3
«maria» 10.0.0.5 logged in || «lisa» 030.123.456 || «lisa» 212.555.0148
"""

# What the tagger takes for an organisation or a place.
PUBLIC_THINGS = """
a white «Ford Transit», BD68 ZRH || is a «Toyota» Yaris || Opel «Astra» steht im Hof || o meu carro é o «Clio cinzento»
O «Fiat Uno» da firma || mijn «Volvo» staat daar || Mon scooter «Peugeot Kisbee», immatriculé || «Skoda Fabia» wraca
registered as a black «Seat Leon» || auto: «Volkswagen» Polo || answer in «Markdown» || pago por «Bizum»
nada de «Perl»
see «NHS» no. 499 || pede o «ASO» e o «CNIS» || rozliczamy «ZUS» || votre code «svp» ? || the «EOD» report
and «Wall Street» hates it || «Savile Row» is posh || «People Partner» || «Senior Account Manager» || :«tada»: done
in «r/DIYUK»: hi || in the «Shackleton Suite», then || the «Austen» Lounge || «pista 3» del club
Halle 4 und «Gleis 7»
prawo «Ohma» i test || test «Turinga» || stelling van «Pythagoras» || «Kayser-Fleischer» rings || «Romberg» unauffällig
hernia de «Bochdalek» || «Sjögren»: Schirmer test || «L-Thyroxin Henning 75» || El aula «Ramón» y Cajal tiene
«Novaminsulfon»
"""
THINGS_FOUND = """
works at «Ford» || the «Toyota Foundation» paid || «Volvo» Group Treasury || Mr «Ford» || at «Clio Bakery»
«Focus» lost
12 «Savile Row» || «Broadway», 14 || the «Wall Bakery» || «Ruby Partner» || «Nursing Leeds Manager»
u/«mossy_badger» || «Dundee» 3
the «Shackleton» family || living at «Suite 4 Mill Lane» || «Maple Hall», 3 Hill Rd || «Ohma» sp. z o.o.
«Pareto Bank»
"""

# What the tagger marks: between `«` and `»`. The type is PASSWORD for words, SECRET for what looks like a key.
JOINED_WORDS = """
<button class="«navbar-toggle-button-primary-large»"> || npm install «eslint-plugin-react-hooks-extra-rules»
container «brave-curie-wonderful-knuth» exited || import «lodash-debounce-helper-utils» from "x"
«text-gray-500-hover-dark» is a class || .«card-header-title-large» { color: red }
der Container «eloquent-lamport-happy-turing» läuft || le paquet «babel-plugin-transform-runtime»
el paquete «webpack-bundle-analyzer-plugin» || il pacchetto «vite-plugin-vue-layouts»
het pakket «rollup-plugin-node-resolve» || o pacote «postcss-preset-env-next»
pakiet «prettier-plugin-organize-imports» || git checkout «feature-add-dark-mode-toggle»
kubectl get pods -n «team-payments-staging-blue» || <header-«nav»-bar-left-open>
{"package": "«react-native-gesture-handler»"} || {"component": "«user-profile-avatar-small»"}
helm install «ingress-nginx-controller-metrics» || header «Content-Security-Policy-Report-Only»
function «compute_monthly_invoice_total» || data-testid="«checkout-form-submit-button»"
the slug is «how-we-moved-to-kubernetes» || 2024-05-03 INFO job «nightly-backup-cleanup-task» done
"""
JOINED_WORDS_FOUND = """
password: «correct-horse-battery-staple» || the wifi password is «correct-horse-battery-staple»
my passphrase used to be «purple-monkey-dishwasher-nine» || Das Passwort lautet «lila-affe-tanzt-nachts»
mot de passe : «cheval-agrafe-pile-correct» || la contraseña es «caballo-grapa-pila-correcta»
la password è «cavallo-graffa-pila-giusta» || het wachtwoord is «paard-nietje-batterij-juist»
a senha é «cavalo-grampo-pilha-certo» || hasło to «kon-zszywka-bateria-dobra»
what's the root pw? - its «brave-curie-wonderful-knuth» || DB_PASSWORD=«navbar-toggle-button-primary-large»
try «xk7-Qw9-zz3-Lp0» at the door
"""
PUBLIC_VALUES = r"""
key_algorithm = "«EC_secp384r1»" || keyAlgorithm: «EC_prime256v1» || token_type = "«urn-x9-bearer-token»"
See «GHSA-7rjr-3q55-vv33» for details || GHSA-«jfh8-c2jp-5v3q» affects log4j || siehe «GHSA-4w2v-q235-vp99»
voir «CVE-2024-3094-xz» || cipher suite «TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256»
ssl_ciphers «ECDHE-RSA-AES256-GCM-SHA384»; || alg: «SHA256withRSA» || KexAlgorithms «curve25519-sha256@libssh.org»
HostKeyAlgorithms «rsa-sha2-512» || "alg": "«RSA-OAEP-256»"
-----BEGIN PUBLIC KEY-----\n«MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=»\n-----END PUBLIC KEY-----
-----BEGIN CERTIFICATE-----\n«MIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQswCQYD»\n-----END CERTIFICATE-----
-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n«mQINBF5xq3sBEADJ2Vb0mQ1cX0fE8zYw2n6vH4tQ9»\n-----END PGP PUBLIC KEY BLOCK-----
ssh_key: «ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQC7v2yYlVh3k9s0tQm4pJ1» ops
«AAAAC3NzaC1lZDI1NTE5AAAAIJvN1uF0SSrB0mVd7Yx0k5pMcz4yJ3q9s8ZtQhH7uXnA»
public_key = "«Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=»"
PublicKey = «Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=»
öffentlicher Schlüssel: «Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=»
clé publique : «Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=»
clave pública: «Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=»
chiave pubblica: «Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=»
publieke sleutel: «Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=»
chave pública: «Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=»
klucz publiczny: «Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=»
sri «sha384-oqVuAfXRKap7fdgcCY5uykM6+R9GqQ8K/uxy9rx7HNQlGYl1kPzQho1wx4JwY8wC» || "x5t": "«NzU4MzY0»" || «INC1820918»
the formula «E = mc^2» || «a^2 + b^2 = c^2» || we get «y = 3x + 12» || «api-server-6d4b75cb6d-hx8kp» is not ready
pod/«frontend-85595f5bf9-2qk7l» 1/1 Running || logs billing-worker-«5c9d6b7fd4-zv9kw»
token-«bucket»-rate-limiter-middleware || password_rule: «min8»-1upper
age recipient «age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p» || RUSTSEC: «RUSTSEC-2021-0124»
"""
SECRETS_FOUND = r"""
api_key = "«Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbL»" || private_key = "«Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=»"
PrivateKey = «Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=»
public key and private key: «Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=»
key_algorithm = "EC_secp384r1"\nkey = "«Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4»"
token for GHSA-7rjr-3q55-vv33: «ghq9XkW2mLz8RtY4»
-----END PUBLIC KEY-----\n«MC4CAQAwBQYDK2VwBCIEIGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXA»
privater Schlüssel: «Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=»
clé privée : «Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=»
-----BEGIN PRIVATE KEY-----\n«MC4CAQAwBQYDK2VwBCIEIGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXA»
«horse = battery» || «ab = k7x9q2» || «pw = 4711» || the password is «x = y2» || «PIN = 4711»
«wifi + kaktus77» || «E=mc^2!x» || «a^2b=c^2» || «web-85595f5bf9-aeiou»
hmac secret «aes9XkW2mLz8RtY4shaQ» || «AESb9ECWmEzf6FQbrB» was the old key
"""


def masked(text: str) -> str:
    """Return the text with what the default patterns find between `«` and `»`."""
    found = inspect(text, MaskPolicy(), AllowLists())
    for mask in reversed(found.masks):
        text = f"{text[: mask.start]}«{text[mask.start : mask.end]}»{text[mask.end :]}"
    return text


def credible(text: str, kind: str) -> bool:
    """Whether a tagger's find of this type between `«` and `»` is masked."""
    start, end = text.index("«"), text.index("»") - 1
    found = ((start, end, kind, 0.9),)
    policy = MaskPolicy(entities=(kind,))
    return bool(find_tagged(plain(text), policy, Tagged(plain(text), frozenset({kind}), found)))


def stay(table: str) -> list[str]:
    """Return the texts of a table in which the patterns find anything."""
    return [masked(text) for text in texts(table) if masked(text) != text]


def missed(table: str) -> list[str]:
    """Return the texts of a table in which the patterns find other values than the marked ones."""
    return [masked(plain(text)) for text in texts(table) if masked(plain(text)) != text]


def test_a_slice_or_a_scope_is_no_address() -> None:
    assert stay(SLICES) == []
    assert missed(VERSION_6_FOUND) == []


def test_the_number_of_a_version_a_section_or_an_object_is_no_address() -> None:
    assert stay(NUMBERED) == []
    assert missed(VERSION_4_FOUND) == []


def test_an_address_of_every_machine_stays() -> None:
    assert stay(EVERY_MACHINE) == []


def test_a_reference_a_sum_or_the_number_of_a_machine_is_no_phone() -> None:
    for table in (REFERENCES, SUMS, MACHINE_NUMBERS):
        assert stay(table) == []
    assert missed(PHONES_FOUND) == []


def test_an_empty_value_does_not_take_the_next_line() -> None:
    assert stay(EMPTY_VALUES) == []
    assert missed(VALUES_FOUND) == []


def test_an_identifier_of_words_is_a_password_only_near_a_word_for_one() -> None:
    assert [text for text in texts(JOINED_WORDS) if credible(text, "PASSWORD")] == []
    assert [text for text in texts(JOINED_WORDS_FOUND) if not credible(text, "PASSWORD")] == []


def test_what_is_public_is_no_secret() -> None:
    for kind in ("SECRET", "PASSWORD"):
        assert [text for text in texts(PUBLIC_VALUES) if credible(text, kind)] == []
        assert [text for text in texts(SECRETS_FOUND) if not credible(text, kind)] == []


def test_a_name_of_a_work_a_medicine_a_disease_a_hall_or_a_school_is_no_person() -> None:
    assert [text for text in texts(PUBLIC_NAMES) if credible(text, "PERSON")] == []
    assert [text for text in texts(PERSONS_FOUND) if not credible(text, "PERSON")] == []
    setting = "SMTP_PASSWORD=\nSMTP_FROM=«noreply»"
    assert not credible(setting, "PASSWORD")
    assert not credible("counter: «2125551234»", "PASSWORD")


def test_a_thing_that_everybody_knows_is_no_organisation_and_no_place() -> None:
    for kind in ("ORGANIZATION", "LOCATION"):
        assert [text for text in texts(PUBLIC_THINGS) if credible(text, kind)] == []
        assert [text for text in texts(THINGS_FOUND) if not credible(text, kind)] == []
    images = "image: registry.local/web-assets:3.11.0 || FROM hub.internal:5000/base/python:3.12"
    assert stay(images) == []
    assert (
        missed("see «registry.local/web-assets» || «https://registry.local/web:3.1» || «hub.example.com/anna:1.2»")
        == []
    )
