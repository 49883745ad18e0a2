# ruff: noqa: E501
"""Contexts that agents meet every day, and rarer ones, written by an author who did not know the rules.

The marks are explained in `secret_contexts`.
"""

SECRETS = r"""
# env files
{NAME}=⟦{line}⟧
{NAME}="⟦{any}⟧"
NODE_ENV=production⏎PORT=3000⏎{NAME}=⟦{line}⟧⏎LOG_LEVEL=info
export {NAME}=⟦{shell}⟧
export {NAME}='⟦{any}⟧' && npm run dev
DB_HOST={host}⏎DB_USER={user}⏎DB_PASSWORD=⟦{line}⟧⏎DB_NAME={word}
DATABASE_URL=postgresql://{user}:⟦{strong}⟧@{host}:5432/{word}
SECRET_KEY='⟦{random}⟧'⏎DEBUG=False
OPENAI_API_KEY=⟦sk-proj-{alnum48}⟧
⟦sk-ant-api03-{url6480}⟧ is in .env as ANTHROPIC_API_KEY
STRIPE_SECRET_KEY=⟦sk_live_{alnum24}⟧⏎STRIPE_WEBHOOK_SECRET=⟦whsec_{alnum32}⟧
NEXTAUTH_SECRET=⟦{b6444}⟧⏎NEXTAUTH_URL=http://localhost:3000
AWS_DEFAULT_REGION=eu-west-1⏎AWS_SECRET_ACCESS_KEY=⟦{b6440}⟧
+{NAME}=⟦{line}⟧
SMTP_HOST={host}⏎SMTP_PORT=587⏎SMTP_USER={user}⏎SMTP_PASS=⟦{line}⟧
# json
{"{name}": "⟦{any}⟧"}
{⏎  "host": "{host}",⏎  "port": 5432,⏎  "{camel}": "⟦{any}⟧"⏎}
{"access_token":"⟦{jwt}⟧","token_type":"Bearer","expires_in":3600}
{"ok":true,"data":{"user":"{user}","{camel}":"⟦{strong}⟧"}}
{"type":"tool_result","content":"{\"{name}\": \"⟦{strong}⟧\", \"region\": \"eu-west-1\"}"}
{"stdout":"{NAME}=⟦{strong}⟧\nPORT=8080\n","stderr":"","interrupted":false}
"refresh_token": "⟦{url6464}⟧",
"body": "{\"username\":\"{user}\",\"password\":\"⟦{strong}⟧\"}"
{"auths":{"https://index.docker.io/v1/":{"auth":"⟦{userpass}⟧"}}}
  "client_id": "{uuid}",⏎  "client_secret": "⟦{random}⟧",
# yaml
{name}: ⟦{line}⟧
{camel}: "⟦{any}⟧"
database:⏎  host: {host}⏎  username: {user}⏎  password: ⟦{line}⟧⏎  pool: {small}
services:⏎  db:⏎    image: postgres:16⏎    environment:⏎      POSTGRES_USER: {user}⏎      POSTGRES_PASSWORD: ⟦{line}⟧
    environment:⏎      - {NAME}=⟦{line}⟧⏎      - TZ=UTC
apiVersion: v1⏎kind: Secret⏎metadata:⏎  name: {slug}⏎type: Opaque⏎data:⏎  {kebab}: ⟦{b6444}⟧
apiVersion: v1⏎kind: Secret⏎metadata:⏎  name: {slug}⏎stringData:⏎  password: '⟦{any}⟧'
        env:⏎        - name: {NAME}⏎          value: "⟦{any}⟧"
spring:⏎  datasource:⏎    url: jdbc:postgresql://{host}:5432/{word}⏎    username: {user}⏎    password: ⟦{line}⟧
    - name: deploy⏎      env:⏎        {NAME}: ⟦{strong}⟧⏎      run: ./deploy.sh
# toml, properties, terraform
{name} = "⟦{any}⟧"
[database]⏎host = "{host}"⏎password = "⟦{any}⟧"⏎port = 5432
spring.datasource.password=⟦{line}⟧
{dotted}=⟦{line}⟧
spring.mail.username={user}⏎spring.mail.password=⟦{line}⟧⏎spring.mail.port=587
jwt.secret=⟦{random}⟧⏎jwt.expiration=86400
resource "aws_db_instance" "main" {⏎  username = "{user}"⏎  password = "⟦{any}⟧"⏎}
variable "{name}" {⏎  type    = string⏎  default = "⟦{strong}⟧"⏎}
db_password = "⟦{any}⟧"⏎db_username = "{user}"
//npm.example.com/:_authToken=⟦npm_{alnum36}⟧
# commands
curl -H "Authorization: Bearer ⟦{jwt}⟧" https://{host}/api/v1/users
curl -s -u {user}:⟦{shell}⟧ https://{host}/rest/api/2/issue/{num}
curl -X POST https://{host}/login -H 'Content-Type: application/json' -d '{"email":"{user}@example.com","password":"⟦{strong}⟧"}'
curl -H 'X-API-Key: ⟦{strong}⟧' https://{host}/v2/{word}
curl -H "Authorization: token ⟦ghp_{alnum36}⟧" https://api.github.com/user/repos
curl "https://{host}/v1/search?q={word}&api_key=⟦{alnum32}⟧"
PGPASSWORD=⟦{shell}⟧ psql -h {host} -U {user} -d {word} -c 'select 1'
PGPASSWORD='⟦{any}⟧' pg_dump -h {host} -U {user} {word} > dump.sql
docker run -d --name pg -e POSTGRES_PASSWORD=⟦{shell}⟧ -p 5432:5432 postgres:16
docker login -u {user} -p ⟦{shell}⟧ {host}
echo "⟦{strong}⟧" | docker login ghcr.io -u {user} --password-stdin
{NAME}=⟦{shell}⟧ python manage.py migrate
git clone https://{user}:⟦ghp_{alnum36}⟧@github.com/{user}/{slug}.git
git remote set-url origin https://x-access-token:⟦ghs_{alnum36}⟧@github.com/{user}/{slug}.git
npm config set //npm.example.com/:_authToken ⟦npm_{alnum36}⟧
aws configure set aws_secret_access_key ⟦{b6440}⟧
gh secret set {NAME} --body "⟦{strong}⟧"
./deploy.sh --host {host} --{kebab} ⟦{shell}⟧
./deploy.sh --host {host} --{kebab}=⟦{shell}⟧ --verbose
psql "postgresql://{user}:⟦{strong}⟧@{host}/{word}?sslmode=require"
# code
{NAME} = "⟦{any}⟧"
{name} = os.environ.get("{NAME}", "⟦{strong}⟧")
client = Client({name}="⟦{strong}⟧", timeout=30)
const {camel} = "⟦{any}⟧";
const {camel} = process.env.{NAME} || '⟦{strong}⟧';
  {camel}: '⟦{any}⟧',
const client = new Client({ host: '{host}', user: '{user}', password: '⟦{any}⟧', database: '{word}' });
const {camel}: string = "⟦{strong}⟧"
var {camel} = "⟦{strong}⟧"
	{camel} := "⟦{any}⟧"
db, err := sql.Open("postgres", "host={host} user={user} password=⟦{alnum16}⟧ dbname={word} sslmode=disable")
private static final String {NAME} = "⟦{any}⟧";
Connection c = DriverManager.getConnection("jdbc:postgresql://{host}/{word}", "{user}", "⟦{strong}⟧"); // user, password
engine = create_engine("postgresql+psycopg2://{user}:⟦{alnum16}⟧@{host}:5432/{word}")
DATABASES = {⏎    'default': {⏎        'ENGINE': 'django.db.backends.postgresql',⏎        'USER': '{user}',⏎        'PASSWORD': '⟦{any}⟧',⏎    }⏎}
headers = {"Authorization": "Bearer ⟦{strong}⟧"}
conn = psycopg2.connect(host="{host}", user="{user}", password="⟦{any}⟧")
jwt.sign({ sub: user.id }, '⟦{strong}⟧', { expiresIn: '1h' }) // JWT secret hardcoded here
app.secret_key = '⟦{any}⟧'
requests.get(url, auth=("{user}", "⟦{strong}⟧"))  # password in the clear
openai.api_key = "⟦sk-{alnum48}⟧"
$password = '⟦{any}⟧';
# sql
CREATE USER {user} WITH PASSWORD '⟦{any}⟧';
ALTER ROLE {user} WITH LOGIN PASSWORD '⟦{any}⟧';
ALTER USER postgres PASSWORD '⟦{strong}⟧'; -- rotate
# logs, traces, headers
[{date} 10:22:31] DEBUG config loaded: {name}=⟦{strong}⟧ timeout=30
{date}T10:22:31Z INFO connecting to postgres://{user}:⟦{strong}⟧@{host}:5432/{word}
> GET /api/me HTTP/1.1⏎> Host: {host}⏎> Authorization: Bearer ⟦{jwt}⟧⏎> Accept: */*
> Authorization: Basic ⟦{userpass}⟧
Set-Cookie: ⟦sessionid={alnum32}; HttpOnly; Path=/; SameSite=Lax⟧
< X-Auth-Token: ⟦{strong}⟧
sqlalchemy.exc.OperationalError: could not connect: postgresql://{user}:⟦{strong}⟧@{host}/{word}
level=debug msg="using credentials" user={user} {p.name}=⟦{pw}⟧ attempt={small}
Error: request failed with status 401⏎    config: { headers: { Authorization: 'Bearer ⟦{jwt}⟧' } }
# chat
here is the token: ⟦ghp_{alnum36}⟧
the {p.spaced} is ⟦{strong}⟧, please don't commit it
Use this API key for testing: ⟦{strong}⟧
my postgres password is ⟦{alnum16}⟧ and the user is {user}
I've generated a new {spaced} for you: `⟦{strong}⟧`
login with {user} / password ⟦{pw}⟧
slack bot token is ⟦xoxb-{digit12}-{digit12}-{alnum24}⟧, channel #{word}
{Title}: ⟦{strong}⟧
- **{Title}**: `⟦{strong}⟧`
# remotes, diffs, tables, cloud
origin⇥https://{user}:⟦ghp_{alnum36}⟧@github.com/{user}/{slug}.git (fetch)
-    password: ⟦{strong}⟧⏎+    password: ${DB_PASSWORD}
+  {camel}: "⟦{any}⟧",
| {NAME} | ⟦{strong}⟧ | production |
| user | password |⏎|------|----------|⏎| {user} | ⟦{alnum16}⟧ |
[default]⏎aws_secret_access_key = ⟦{b6440}⟧⏎region = us-east-1
{⏎    "AccessKey": {⏎        "UserName": "{user}",⏎        "Status": "Active",⏎        "SecretAccessKey": "⟦{b6440}⟧"⏎    }⏎}
{⏎    "Name": "{slug}",⏎    "SecretString": "{\"username\":\"{user}\",\"password\":\"⟦{strong}⟧\"}"⏎}
⟦-----BEGIN RSA PRIVATE KEY-----⏎{b6464}⏎{b6464}⏎{b6432}⏎-----END RSA PRIVATE KEY-----⟧
{"role":"user","content":"connect with {user} and the password '⟦{strong}⟧', then run the migration"}
"headers":{"authorization":"Bearer ⟦{jwt}⟧","content-type":"application/json"}
remote: https://oauth2:⟦glpat-{alnum20}⟧@gitlab.com/{user}/{slug}.git
# less usual config files
machine {host} login {user} password ⟦{shell}⟧
machine {host}⏎  login {user}⏎  password ⟦{shell}⟧
[client]⏎user={user}⏎password="⟦{any}⟧"⏎host={host}
network={⏎    ssid="{word}"⏎    key_mgmt=WPA-PSK⏎    psk="⟦{alnum16}⟧"⏎}
{host}:5432:{word}:{user}:⟦{alnum16}⟧
dn: uid={user},ou=people,dc=example,dc=org⏎objectClass: inetOrgPerson⏎userPassword: ⟦{line}⟧
snmp-server community ⟦{alnum16}⟧ RO
enable secret 0 ⟦{alnum12}⟧
username {user} privilege 15 password 0 ⟦{alnum16}⟧
requirepass ⟦{alnum32}⟧⏎maxmemory 256mb
masterauth ⟦{alnum32}⟧
client {host} {⏎    ipaddr = 10.0.0.{small}⏎    secret = ⟦{alnum24}⟧⏎}
{user} Cleartext-Password := "⟦{any}⟧"
[{user}]⏎type=friend⏎host=dynamic⏎secret=⟦{alnum16}⟧⏎context=internal
//{host}/share /mnt/share cifs username={user},password=⟦{alnum16}⟧,vers=3.0 0 0
relayhost {host}⏎[{host}]:587 {user}:⟦{alnum16}⟧
auth on⏎user {user}⏎password ⟦{alnum16}⟧⏎from {user}@example.com
account default : gmail⏎user {user}⏎password "⟦{any}⟧"
set imap_user = "{user}@example.com"⏎set imap_pass = "⟦{any}⟧"⏎set folder = "imaps://{host}"
rpcuser={user}⏎rpcpassword=⟦{line}⟧⏎rpcport=8332
<user name="{user}" password="⟦{strong}⟧" roles="manager-gui"/>
<entry key="{dotted}">⟦{strong}⟧</entry>
<add key="{Title}" value="⟦{strong}⟧" />
<property name="hibernate.connection.password">⟦{strong}⟧</property>
<Parameter name="{camel}"><![CDATA[⟦{strong}⟧]]></Parameter>
<key>{camel}</key>⏎<string>⟦{strong}⟧</string>
<string name="{name}">⟦{strong}⟧</string>
<dt>Password</dt><dd><code>⟦{strong}⟧</code></dd>
  {⏎    "key": "{NAME}",⏎    "enabled": true,⏎    "value": "⟦{strong}⟧"⏎  }
{"name":"Authorization","value":"Bearer ⟦{strong}⟧"}
{"name": "{name}", "type": "string", "defaultValue": "⟦{strong}⟧"}
"auth": {"type": "basic", "basic": [{"key": "username", "value": "{user}"}, {"key": "password", "value": "⟦{strong}⟧"}]}
# less usual commands
sshpass -p ⟦{shell}⟧ ssh -o StrictHostKeyChecking=no {user}@{host} uptime
sshpass -p'⟦{any}⟧' scp {file} {user}@{host}:/tmp/
smbclient //{host}/public -U {user}%⟦{shell}⟧ -c 'ls'
lftp -u {user},⟦{alnum16}⟧ sftp://{host}
openssl pkcs12 -in {word}.p12 -nodes -passin pass:⟦{shell}⟧ -out {word}.pem
openssl enc -aes-256-cbc -pbkdf2 -in {file} -out {file}.enc -k ⟦{shell}⟧
openssl req -newkey rsa:4096 -passout pass:⟦{shell}⟧ -keyout key.pem
gpg --batch --yes --passphrase '⟦{any}⟧' -d {file}.gpg
keytool -importkeystore -srckeystore {word}.jks -srcstorepass ⟦{shell}⟧ -destkeystore {word}.p12
zip -r -P ⟦{shell}⟧ out.zip {path}
7z x archive.7z -p⟦{alnum16}⟧ -o/tmp/out
echo ⟦{shell}⟧ | sudo -S systemctl restart {word}
expect "password:"⏎send "⟦{alnum16}⟧\r"
ldapwhoami -x -D cn={user},dc=example,dc=org -w ⟦{shell}⟧ -H ldaps://{host}
cqlsh {host} 9042 -u {user} -p ⟦{shell}⟧
sqlcmd -S {host} -U sa -P '⟦{any}⟧' -Q "select @@version"
sqlplus {user}/⟦{alnum16}⟧@//{host}:1521/{word}
snowsql -a {word} -u {user} -o password=⟦{shell}⟧
net use Z: \\{host}\data ⟦{alnum16}⟧ /user:{user}
nmcli dev wifi connect {word} password ⟦{alnum16}⟧
ngrok config add-authtoken ⟦{alnum49}⟧
cloudflared tunnel run --token ⟦eyJ{b64120}⟧
cargo login ⟦cio{alnum32}⟧
rabbitmqctl add_user {user} ⟦{shell}⟧
htpasswd -bc /etc/nginx/.htpasswd {user} ⟦{shell}⟧
erl -name {word}@{host} -setcookie ⟦{upper20}⟧
tailscale up --authkey=⟦tskey-auth-{alnum12}-{alnum32}⟧
k3s agent --server https://{host}:6443 --token ⟦K10{hex64}::server:{hex32}⟧
kubeadm join {host}:6443 --token ⟦{lower6}.{lower16}⟧ --discovery-token-ca-cert-hash sha256:{hex64}
docker swarm join --token ⟦SWMTKN-1-{lower50}-{lower25}⟧ {host}:2377
ffmpeg -i "rtsp://{user}:⟦{alnum12}⟧@{host}:554/stream1" -frames 1 out.jpg
curl -b '⟦JSESSIONID={hex32}⟧' http://{host}:8080/app/status
curl -G https://{host}/data/2.5/weather -d q=Berlin -d appid=⟦{hex32}⟧
curl "https://api.telegram.org/bot⟦{digit10}:AA{alnum33}⟧/getUpdates"
az storage blob list --account-name {word} --sas-token "⟦sv=2022-11-02&ss=b&sp=rl&sig={alnum43}%3D⟧"
# other languages (German, French, Spanish)
Passwort: ⟦{strong}⟧
Das Kennwort für {user} lautet ⟦{strong}⟧ und muss nach dem ersten Login geändert werden.
Zugangsdaten für {host}:⏎Benutzer: {user}⏎Passwort: ⟦{line}⟧
Hier ist der API-Schlüssel: ⟦{strong}⟧
Mit dem Token ⟦{strong}⟧ komme ich auf die Schnittstelle, probier es mal.
Das WLAN-Passwort im Büro ist ⟦{alnum16}⟧
Mot de passe : ⟦{strong}⟧
le mot de passe de la base de prod est « ⟦{strong}⟧ »
Identifiant : {user}⏎Mot de passe : ⟦{line}⟧
Voici la clé d'API à utiliser : ⟦{strong}⟧
clé secrète=⟦{strong}⟧
La contraseña del servidor es ⟦{strong}⟧
usuario: {user}⏎contraseña: ⟦{line}⟧
Clave de acceso → ⟦{strong}⟧
utiliza este token de acceso: ⟦{jwt}⟧
mot_de_passe = "⟦{any}⟧"
$kennwort = '⟦{any}⟧';
contrasena: '⟦{any}⟧',
# odd separators and layouts
{Title} => ⟦{strong}⟧
{NAME} -> ⟦{strong}⟧
{Title} ........ ⟦{strong}⟧
{spaced} is set to: "⟦{any}⟧"
{Title}⏎    ⟦{strong}⟧
{Title}:⏎⏎    ⟦{strong}⟧⏎⏎Copy it now, it will not be shown again.
Your new personal access token:⏎⟦{strong}⟧⏎Make sure to copy it, you won't be able to see it again!
{Title}⇥⇥⟦{strong}⟧
║ {Title} ║ ⟦{strong}⟧ ║
*{Title}* — ⟦{strong}⟧
{name}≔⟦{strong}⟧
[{NAME}]=⟦{strong}⟧
Key              Value⏎---              -----⏎{name}    ⟦{strong}⟧
Key                  Value⏎---                  -----⏎token                ⟦hvs.{alnum24}⟧⏎token_accessor       {alnum24}⏎token_duration       768h
username,password,email⏎{user},⟦{alnum16}⟧,{user}@example.com
 rolname | rolpassword_plain⏎---------+-------------------⏎ {user} | ⟦{alnum20}⟧
root@{host}'s password: ⟦{alnum12}⟧⏎Welcome to Ubuntu 22.04.4 LTS
New password: ⟦{alnum16}⟧⏎Retype new password: ⟦{alnum16}⟧
Recovery codes (store them safely):⏎⟦{lower5}-{lower5}⟧⏎⟦{lower5}-{lower5}⟧⏎⟦{lower5}-{lower5}⟧
# code of less usual kinds
-define({NAME}, "⟦{strong}⟧").
config :{word}, {Type}.Endpoint, secret_key_base: "⟦{strong}⟧"
(def {kebab} "⟦{any}⟧")
my ${name} = '⟦{any}⟧';
local {name} = "⟦{any}⟧"
{name} <- "⟦{any}⟧"
#define {NAME} "⟦{any}⟧"
const char* {camel} = "⟦{any}⟧";
WiFi.begin("{word}", "⟦{pw}⟧"); // ssid, password
DBI->connect("dbi:mysql:{word}", '{user}', '⟦{strong}⟧'); # user, password
otpauth://totp/{word}:{user}?secret=⟦JBSW{upper28}⟧&issuer={word}
{p.Title} of the router at {host} → ⟦{pw}⟧
{p.name}(prod)=⟦{pw}⟧
jdbc:oracle:thin:{user}/⟦{alnum16}⟧@{host}:1521:{word}
Provider=MSOLEDBSQL;Data Source={host};UID={user};PWD=⟦{alnum16}⟧;
{p.camel}("⟦{any}⟧")
"""

INNOCENT = r"""
# env references and placeholders
{NAME}=${{NAME}}
{NAME}=your-{kebab}-here
{NAME}=
DB_PASSWORD=${DB_PASSWORD:?must be set}
{NAME}="$(aws secretsmanager get-secret-value --secret-id {slug} --query SecretString --output text)"
export {NAME}="$1"
API_KEY=<your-api-key>⏎API_SECRET=<your-api-secret>
POSTGRES_PASSWORD: ${POSTGRES_PASSWORD}
      - {NAME}=${{NAME}:-}
          {NAME}: ${{ secrets.{NAME} }}
password: ${{ secrets.DOCKERHUB_TOKEN }}
spring.datasource.password=${DB_PASSWORD}
  password = var.{name}
  value       = random_password.db.result⏎  sensitive   = true
variable "{name}" {⏎  description = "The {spaced} for {word}"⏎  type        = string⏎  sensitive   = true⏎}
//npm.example.com/:_authToken=${NPM_TOKEN}
              valueFrom:⏎                secretKeyRef:⏎                  name: {slug}⏎                  key: {kebab}
curl -H "Authorization: Bearer $TOKEN" https://{host}/api/v1/{word}
curl -u "$USER:$PASSWORD" https://{host}/
echo "$CR_PAT" | docker login ghcr.io -u {user} --password-stdin
git clone https://${GITHUB_TOKEN}@github.com/{user}/{slug}.git
# code
{name} = os.environ["{NAME}"]
const {camel} = process.env.{NAME};
if (!process.env.{NAME}) throw new Error('{NAME} is not set');
{camel} := os.Getenv("{NAME}")
String {camel} = System.getenv("{NAME}");
let {name} = std::env::var("{NAME}").expect("{NAME} must be set");
def login(username: str, password: str) -> Token:
func NewClient({camel} string, timeout time.Duration) *Client {
export interface LoginRequest {⏎  username: string;⏎  password: string;⏎}
password = models.CharField(max_length=128)
const token = jwt.sign(payload, secret, { expiresIn: '1h' });
const hashed = await bcrypt.hash(password, 10);
self.{name} = {name}
this.{camel} = options.{camel} ?? config.{camel};
const { accessToken, refreshToken } = await authService.login(email, password);
user.set_password(form.cleaned_data["password"])
headers: { Authorization: `Bearer ${accessToken}` }
parser.add_argument("--{kebab}", help="{spaced} for the {word} service", required=True)
@Value("${app.jwt.secret}") private String jwtSecret;
private final PasswordEncoder passwordEncoder;
if password != confirm_password:⏎    raise ValidationError("Passwords do not match")
def test_reset_password_token_expires(self):
it('rejects an invalid {spaced}', async () => {
token = request.headers.get("Authorization", "").removeprefix("Bearer ")
access_token = create_access_token(data={"sub": user.email})
tokens = tokenizer.encode(text)⏎print(len(tokens))
for token in doc: print(token.text, token.pos_)
while (token.type !== TokenType.EOF) { token = lexer.nextToken(); }
max_tokens=4096, temperature=0.2
"usage":{"input_tokens":{num},"output_tokens":{num},"cache_read_input_tokens":{num}}
const key = `${prefix}:${userId}`;
for key, value in config.items():
primary_key=True, autoincrement=True
PRIMARY KEY (id), FOREIGN KEY (user_id) REFERENCES users (id)
ALTER TABLE users ADD COLUMN password_hash VARCHAR(255) NOT NULL;
SELECT id, email, password_reset_token FROM users WHERE email = $1;
document.addEventListener('keydown', (e) => { if (e.key === 'Escape') close(); });
items.sort(key=lambda x: x.created_at)
<input type="password" name="password" placeholder="Enter your password" autocomplete="current-password" />
<label htmlFor="password">Password</label>
<input type="hidden" name="csrf_token" value="{{ csrf_token() }}">
"login.password.label": "Password",⏎"login.password.placeholder": "Enter your password",
  --color-token-primary: #3b82f6;⏎  --spacing-token-md: 16px;
import { getToken } from 'next-auth/jwt';
from django.contrib.auth.tokens import default_token_generator
from app.core.security import get_password_hash, verify_password
type {Type} struct {⏎	Username string `json:"username"`⏎	Password string `json:"password"`⏎}
throw new UnauthorizedException("Invalid username or password");
const [password, setPassword] = useState('');
z.object({ email: z.string().email(), password: z.string().min(8) })
# logs and outputs
{date} INFO  Login successful for user {user}
{date}T08:11:02Z WARN auth: invalid token for user {user}, retrying in {small}s
Error: JsonWebTokenError: jwt malformed
psql: error: connection to server at "{host}", port 5432 failed: FATAL:  password authentication failed for user "{user}"
fatal: Authentication failed for 'https://github.com/{user}/{slug}.git/'
remote: Support for password authentication was removed on August 13, 2021.
Permission denied (publickey,password).
{user}@{host}'s password:
[sudo] password for {user}:
Enter passphrase for key '/home/{user}/.ssh/id_ed25519':
✓ should return 401 when {spaced} is missing ({small} ms)
PASS src/auth/__tests__/token.service.spec.ts
FAILED tests/test_auth.py::test_password_reset - AssertionError: assert 400 == 200
  Logged in to github.com account {user} (keyring)⏎  - Token: gho_************************************⏎  - Token scopes: 'gist', 'repo'
src/auth/password.ts(12,5): error TS2322: Type 'string | undefined' is not assignable to type 'string'.
error[E0425]: cannot find value `token` in this scope
HTTP/1.1 401 Unauthorized⏎WWW-Authenticate: Bearer realm="{word}", error="invalid_token"
{"error":"invalid_grant","error_description":"Invalid refresh token"}
# ids and digests
commit {hex40}⏎Author: {user} <{user}@example.com>⏎Date:   {date}
index {hex7}..{hex7} 100644⏎--- a/src/auth/token.ts⏎+++ b/src/auth/token.ts
"integrity": "sha512-{b6488}",
sha256:{hex64}
{hex64}  {file}
    --hash=sha256:{hex64} \⏎    --hash=sha256:{hex64}
github.com/{user}/{slug} v{ver} h1:{b6444}
Digest: sha256:{hex64}⏎Status: Downloaded newer image for postgres:16
"request_id": "{uuid}", "status": "ok"
{"sessionId":"{uuid}","parentUuid":"{uuid}","type":"user"}
"tool_use_id":"toolu_01{alnum22}"
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5{b6448} {user}@{host}
uses: actions/checkout@{hex40}
HEAD is now at {hex7} fix: password reset flow
arn:aws:secretsmanager:eu-west-1:{digit12}:secret:{slug}
# documentation and chat
Set the `{NAME}` environment variable before running the app.
The password must be at least 12 characters long and contain a number.
Please rotate the {spaced} and store it in 1Password.
Never commit your {spaced} to version control.
| `{NAME}` | Your {spaced} | required |
I'll add a password field to the login form and validate the token in the middleware.
Can you fix the token refresh logic? It logs people out after {small} minutes.
Add your API key in Settings → Developer → API keys.
- [ ] Replace basic auth with OAuth tokens⏎- [x] Hash passwords with argon2
feat(auth): add password reset endpoint (#{num})
| column | type | nullable |⏎|---|---|---|⏎| password | varchar(255) | no |
The key insight is that the secret to fast builds is caching {words}.
"scripts": { "test:auth": "jest --testPathPattern=auth/token" },
raise HTTPException(status_code=401, detail="Could not validate credentials")
Requirement already satisfied: python-jose[cryptography] in ./.venv/lib/python3.12/site-packages ({ver})
# near misses: prompts, forms, messages
Passwort vergessen?
Bitte geben Sie Ihr Passwort ein:
Das Passwort muss mindestens {small} Zeichen lang sein.
Kennwort: Pflichtfeld
Das Token ist abgelaufen, bitte neu anmelden.
Mot de passe oublié ?
Mot de passe : champ obligatoire
Votre mot de passe a bien été modifié.
La clé d'API est lue depuis la variable {NAME}.
Contraseña incorrecta
¿Olvidaste tu contraseña?
Introduce la contraseña de {user}:
password.required=Das Passwort ist erforderlich
password.too_short=Le mot de passe est trop court (minimum {small} caractères)
msgid "Password"⏎msgstr "Passwort"
<trans-unit id="login.password"><source>Password</source><target>Mot de passe</target></trans-unit>
"forgotPassword": "¿Ha olvidado su contraseña?",
password: the field is required
Password: must contain at least one uppercase letter
token: unexpected end of input
secret: not found in namespace {word}
key: value pairs separated by commas
api_key: missing
{name}: undefined
{camel}: null,
{name}: ""
{name}: false
{name}: [REDACTED]
{name}=********
{name} = <redacted>
"password": "••••••••"
password=%s
password: {}
{name}={num} chars
{name} length: {small}
{name} rotated {small} days ago
{name}: string;
{camel}?: string | null;
{name}: Optional[str] = None
{name}: SecretStr
{camel}: Joi.string().min(12).required(),
{camel}: z.string().optional(),
{camel}: getSecret('{kebab}'),
{camel}: config.get('{dotted}'),
{camel}: process.env['{NAME}'] as string,
{NAME} = config("{NAME}", default="")
{name} = getpass.getpass("{Title}: ")
{name} = secrets.token_urlsafe(32)
{name} = Faker("password", length=16)
{name} := rand.Text()
{name} = input("Enter the {spaced}: ")
{name} = keyring.get_password("{slug}", "{user}")
{name} = vault.read(f"secret/data/{path}")["data"]["data"]["value"]
{NAME}=$(pass show {word}/{kebab})
{NAME}=`cat /run/secrets/{name}`
{NAME}="op://{word}/{word}/{name}"
read -rsp "{Title}: " {NAME}; echo
{camel} = (await ssm.getParameter({ Name: '/{word}/{kebab}', WithDecryption: true }).promise()).Parameter.Value
#define MAX_PASSWORD_LENGTH 128
#define TOKEN_EOF 0x{hex2}
static const char *const token_names[] = { "IDENT", "NUMBER", "STRING" };
%token <str> IDENTIFIER STRING_LITERAL⏎%token IF ELSE WHILE
typedef struct Token { TokenKind kind; const char *start; size_t length; } Token;
KEY_ENTER = 13, KEY_ESCAPE = 27
bindkey '^R' history-incremental-search-backward
map <leader>k :KeyHelp<CR>
# commands without values
openssl pkcs12 -in {word}.p12 -passin env:P12_PASS -nodes
openssl rsa -in key.pem -passin file:/etc/ssl/pass.txt
openssl passwd -6 -stdin < /dev/tty
sshpass -e ssh {user}@{host}
sshpass -f ~/.pw ssh {user}@{host}
mysql --login-path={word} -e status
ldapsearch -x -W -D cn={user},dc=example,dc=org
htpasswd -c /etc/nginx/.htpasswd {user}
smbclient -A /etc/samba/cred //{host}/share
pass generate -n {word}/{slug} 32
pwgen -s 24 1
passwd -l {user}
ssh-keygen -t ed25519 -N "" -f ~/.ssh/{slug}
gpg --list-secret-keys --keyid-format=long⏎sec   ed25519/{upper16} {date} [SC]
git log -S password --oneline -- {path}
grep -rn "password\|secret\|token" --include=*.py {path}
rg -n 'api[_-]?key\s*[:=]' -g '!node_modules'
{path}:{num}:    password: Annotated[str, Form()],
{path}:{num}:  // TODO: move the secret to the vault
sed -i 's/{NAME}=.*/{NAME}=REPLACE_ME/' .env.example
vault kv get -field=password secret/{word}
git-crypt unlock ../{slug}.key
trufflehog git file://. --only-verified⏎🐷 0 verified secrets found
# digests, ids, public things that look random
{date} trace_id={hex32} span_id={hex16}
age1{lower58} is the public recipient in .sops.yaml
PublicKey = {b6444}⏎AllowedIPs = 10.0.0.2/32
{host} ssh-rsa AAAAB3NzaC1yc2E{b64120}
SHA256:{alnum43} {user}@{host} (ED25519)
--discovery-token-ca-cert-hash sha256:{hex64}
-----BEGIN CERTIFICATE-----⏎{b6464}⏎{b6464}⏎-----END CERTIFICATE-----
<script src="/app.js" integrity="sha384-{b6464}" crossorigin="anonymous"></script>
Content-Security-Policy: script-src 'sha256-{b6444}'
sha256 = "sha256-{b6444}";
    "narHash": "sha256-{b6444}",⏎    "rev": "{hex40}",
cid: bafybei{lower52}
0x{hex40} deployed at block {num}
txid {hex64} confirmed
primary_key: {uuid}
cache key: {hex64}
idempotency-key: {uuid}
sort key: user#{uuid}
docker.io/library/redis@sha256:{hex64}
oid sha256:{hex64}⏎size {num}
ETag: W/"{hex8}-{alnum27}"
BUILD_ID={alnum21}
# prose close to a value
the token bucket refills {small} tokens per second
The password hash column is wider than before, so existing rows stay valid.
Secret Santa list is in {file}
I think the secret is simply caching.
The token was revoked yesterday, so CI is red.
password protected PDF files are skipped
Monkey patching tokenizes the turkey keyboard layout: {words}
{camel}Visible = !{camel}Visible
{date} audit: user {user} viewed the {spaced} page
"""
