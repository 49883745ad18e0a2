"""Contexts that were held out until rules were written for their failures, secrets and look-alikes in one file.

Written as in `secret_contexts` and `innocent_contexts`.
"""

SECRETS = r"""
# JSON, YAML, TOML, INI
{"credentials": {"username": "{user}", "{p.name}": "⟦{any}⟧"}}
    "{camel}" : "⟦{any}⟧" ,
{ "{Title}" : "⟦{any}⟧" }
{"connections":[{"host":"{host}","{p.camel}":"⟦{line}⟧"}]}
[{"name":"{NAME}","value":"⟦{line}⟧"},{"name":"PORT","value":"80"}]
{"settings":{"{kebab}":"⟦{any}⟧","debug":false}}
log: {\"level\":\"info\",\"{name}\":\"⟦{line}⟧\"}
{"args": ["--{p.kebab}", "⟦{shell}⟧"]}
{"args": ["--{p.kebab}=⟦{shell}⟧"]}
  "{p.name}": "⟦{any}⟧"⏎}
{camel}: "⟦{any}⟧" # from vault
  {kebab}: ⟦{line}⟧
config:⏎  {Title}: ⟦{line}⟧
  {p.NAME}: "⟦{any}⟧"
- {p.camel}: '⟦{any}⟧'
  - name: {NAME}⏎    value: '⟦{any}⟧'
      env:⏎        - name: {NAME}⏎          value: ⟦{line}⟧
kind: Secret⏎stringData:⏎  {kebab}: "⟦{any}⟧"
with:⏎  {kebab}: ⟦{line}⟧
variables:⏎  {NAME}: "⟦{any}⟧"
build_args:⏎  - {NAME}=⟦{line}⟧
smtp_auth_password: '⟦{any}⟧'
basic_auth:⏎  username: {user}⏎  password: ⟦{line}⟧
[[servers]]⏎{name} = "⟦{any}⟧"
{camel} = "⟦{any}⟧"
"{name}" = "⟦{any}⟧"
[mysqld]⏎{p.name}=⟦{line}⟧
[smtp]⏎host = {host}⏎{p.name} = ⟦{line}⟧
{dotted} = ⟦{strong}⟧
javax.net.ssl.keyStorePassword=⟦{line}⟧
hibernate.connection.password=⟦{line}⟧
quarkus.{dotted}=⟦{line}⟧
{p.Title}=⟦{line}⟧
{NAME} = ⟦{strong}⟧
{NAME} = "⟦{any}⟧"
export {NAME}=$'⟦{line}⟧'
  {NAME}='⟦{any}⟧' \
local {NAME}="⟦{any}⟧"
readonly {NAME}="⟦{any}⟧"
Environment='{NAME}=⟦{line}⟧'
# code
{camel} = '⟦{any}⟧'
var {camel} string = "⟦{any}⟧"
var {camel}: String = "⟦{any}⟧"
static {NAME}: &str = "⟦{any}⟧";
private const string {Title} = "⟦{any}⟧";
protected ${camel} = '⟦{any}⟧';
public static String {camel} = "⟦{any}⟧";
options.{Title} = "⟦{any}⟧";
builder.{Title}("⟦{random}⟧");
.{p.camel}('⟦{random}⟧')
props.put("{p.dotted}", "⟦{strong}⟧");
props.setProperty("{p.name}", "⟦{strong}⟧");
headers.append('{Title}', '⟦{strong}⟧')
conf.set("{dotted}", "⟦{strong}⟧")
{"{name}", "⟦{strong}⟧"},
("{NAME}", "⟦{strong}⟧"),
os.putenv("{NAME}", "⟦{strong}⟧")
Environment.SetEnvironmentVariable("{NAME}", "⟦{strong}⟧")
ENV.fetch('{NAME}') { '⟦{strong}⟧' }
getenv("{NAME}") ?: "⟦{strong}⟧"
System.setProperty("{p.name}", "⟦{strong}⟧")
{name} = kwargs.get("{name}", "⟦{strong}⟧")
@Value("⟦{strong}⟧") String {camel};
psycopg2.connect(dbname="app", user="{user}", password="⟦{any}⟧")
mysql.connector.connect(user='{user}', passwd='⟦{any}⟧')
new Client({ {camel}: "⟦{any}⟧" })
axios.create({ headers: { "X-API-Key": "⟦{any}⟧" } })
fetch(url, { headers: { Authorization: "Bearer ⟦{strong}⟧" } })
ftp.login("{user}", "⟦{strong}⟧")
server.login("{user}@{host}", "⟦{strong}⟧")
paramiko.connect(host, username="{user}", password="⟦{any}⟧")
Fernet(b"⟦{b6443}=⟧")
jwt.sign(payload, "⟦{strong}⟧")
hmac.new(b"⟦{strong}⟧", msg, sha256)
stripe.api_key = "⟦sk_test_{alnum24}⟧"
(setq {kebab} "⟦{any}⟧")
{name} := `⟦{line}⟧`
const {NAME} = `⟦{line}⟧`
{camel}: z.string().default("⟦{strong}⟧")
parser.add_argument("--{kebab}", default="⟦{strong}⟧")
assertEquals("⟦{strong}⟧", {camel});
# XML
<Parameter Name="{Title}" Value="⟦{any}⟧"/>
<{Title}>⟦{line}⟧</{Title}>
<bean:{p.camel}>⟦{line}⟧</bean:{p.camel}>
<dataSource {p.name}="⟦{any}⟧" user="{user}"/>
<param name="{p.name}">⟦{line}⟧</param>
<connectionStrings><add connectionString="Server={host};Uid=sa;Pwd=⟦{shell}⟧;"/></connectionStrings>
# command lines
curl -X POST https://{host} -u {user}:'⟦{line}⟧'
curl https://{user}:⟦{shell}⟧@{host}/v1
curl -H "PRIVATE-TOKEN: ⟦{strong}⟧" https://{host}
curl -H "{Title}: ⟦{strong}⟧" https://{host}
curl "https://{host}/v1?apikey=⟦{strong}⟧"
curl --data-urlencode "{p.name}=⟦{line}⟧" https://{host}
http POST {host} Authorization:"Bearer ⟦{strong}⟧"
wget --header="Authorization: Bearer ⟦{strong}⟧" https://{host}
tool login --username {user} --{p.kebab}="⟦{any}⟧"
tool {p.kebab}=⟦{shell}⟧ verbose=1
./deploy.sh -{p.kebab} ⟦{shell}⟧
docker run -d -e "{NAME}=⟦{line}⟧" -e DEBUG=1 app
docker service create --env {NAME}=⟦{shell}⟧ app
echo "{NAME}=⟦{line}⟧" >> .env
echo 'export {NAME}="⟦{line}⟧"' >> ~/.bashrc
printf '%s' '⟦{line}⟧' | docker login -u {user} --password-stdin
cat > .env <<EOF⏎{NAME}=⟦{line}⟧⏎EOF
kubectl set env deploy/app {NAME}=⟦{shell}⟧
oc login --token=⟦sha256~{url43}⟧ --server=https://{host}
gcloud sql users set-password {user} --password=⟦{shell}⟧
az sql server create --admin-password ⟦{shell}⟧
aws iam create-login-profile --user-name {user} --password '⟦{any}⟧'
pg_dump "postgresql://{user}:⟦{shell}⟧@{host}/app"
mysqladmin -u root password '⟦{line}⟧'
mysql -h {host} -u{user} -p"⟦{line}⟧" app
mongodump --username {user} --password "⟦{any}⟧"
influx -username {user} -password '⟦{any}⟧'
openssl pkcs12 -export -passout pass:⟦{shell}⟧ -in a
keytool -importkeystore -srcstorepass ⟦{shell}⟧ -deststorepass ⟦{shell}⟧
cmdkey /generic:{host} /user:{user} /pass:"⟦{line}⟧"
runas.exe /password:⟦{shell}⟧
msiexec /i a.msi DBPASSWORD=⟦{shell}⟧ /qn
winrs -r:{host} -u:{user} -p:⟦{shell}⟧ ipconfig
rsync --password=⟦{shell}⟧ a {host}::b
pip install --index-url https://{user}:⟦{shell}⟧@{host}/simple x
npm login --auth-token ⟦{strong}⟧
gpg --pinentry-mode loopback --passphrase="⟦{any}⟧" -d x
expect -c 'send "⟦{strong}⟧\r"' password
ansible-vault --vault-password ⟦{shell}⟧
Set-Item env:{NAME} "⟦{strong}⟧"
New-LocalUser -Name {user} -Password "⟦{any}⟧"
sudo mount -t cifs -o user={user},pass=⟦{shell}⟧ //srv/a /mnt
# addresses
mongodb://{user}:⟦{shell}⟧@{host}:27017,{host}:27018/app
rediss://default:⟦{shell}⟧@{host}:6380
DATABASE_URL="postgresql://{user}:⟦{shell}⟧@{host}/app?sslmode=require"
"url": "amqp://{user}:⟦{shell}⟧@{host}//"
git+https://⟦{strong}⟧@{host}/a/b.git
https://oauth2:⟦{strong}⟧@{host}/a.git
jdbc:db2://{host}:50000/app:user={user};password=⟦{shell}⟧;
Provider=SQLOLEDB;Data Source={host};Password=⟦{line}⟧;
Driver={ODBC};Server={host};UID=sa;PWD=⟦{shell}⟧;
tcp://{user}:⟦{shell}⟧@{host}:9000
https://{host}/hook?secret=⟦{shell}⟧
wss://{host}/ws?auth_token=⟦{strong}⟧
# headers, cookies, tokens
-H 'Authorization: Basic ⟦{userpass}⟧'
authorization: Token ⟦{hex40}⟧
< Set-Cookie: ⟦JSESSIONID={upper32}; Path=/⟧
cookie: ⟦_session={strong}; _ga=1⟧
document.cookie = "⟦session={strong}⟧";
'X-Auth-Token': '⟦{any}⟧',
("Authorization", "Bearer ⟦{strong}⟧")
req.Header.Set("X-Api-Key", "⟦{strong}⟧")
metadata: ('authorization', 'Bearer ⟦{strong}⟧')
export GH=⟦gho_{alnum36}⟧
my_⟦npm_{alnum36}⟧_2
"⟦xoxp-{digit12}-{digit12}-{digit12}-{hex32}⟧"
(⟦sk_live_{alnum24}⟧)
[⟦AKIA{upper16}⟧]
token=⟦hvs.{url95}⟧
key:⟦AIza{url35}⟧;
⟦ghs_{alnum36}⟧:x-oauth
$⟦{jwt}⟧
?jwt=⟦{jwt}⟧&x=1
# files, tables, prose
machine {host}⏎⇥login {user}⏎⇥password ⟦{shell}⟧
db:5432:*:*:⟦{shell}⟧
email,password⏎{user}@{host},⟦{shell}⟧
host⇥user⇥password⏎{host}⇥{user}⇥⟦{shell}⟧
| Key | Value |⏎|---|---|⏎| API token | ⟦{strong}⟧ |
| name | secret |⏎| --- | --- |⏎| {word} | ⟦{strong}⟧ |
content-disposition: form-data; name="{p.name}"⏎⏎⟦{shell}⟧⏎--x
Your backup codes:⏎⏎1. ⟦{digit4} {digit4}⟧⏎2. ⟦{digit4} {digit4}⟧
⟦-----BEGIN PRIVATE KEY-----⏎{b6464}⏎{b6464}⏎{b6464}⏎-----END PRIVATE KEY-----⟧
ssh_key: ⟦LS0tLS1CRUdJTiBPUEVOU1NIIFBSSVZBVEUgS0VZLS0tLS0{b64300}⟧
⟦b3BlbnNzaC1rZXktdjEAAAAA{b6446}⏎{b6470}⏎{b6470}⏎{b6450}⟧
⟦npm_{alnum18}⏎{alnum18}⟧
API_SECRET=⟦{alnum70}⏎{alnum40}⟧
hey, the api key is ⟦{strong}⟧ - dont share
Can you log in with {user} / password ⟦{random}⟧ ?
I set the password to ⟦{random}⟧
his token is "⟦{strong}⟧"
The secret key: ⟦{strong}⟧
API Key = ⟦{strong}⟧
Access token → ⟦{strong}⟧
pw: ⟦{random}⟧
root pw is ⟦{random}⟧
Password ⟦{strong}⟧ works
ERROR auth failed for user={user} token=⟦{strong}⟧
{date} 10:00:01 DEBUG {p.name}: ⟦{line}⟧
msg="login" {p.name}="⟦{any}⟧"
{user}'s password: ⟦{random}⟧
# vendors, devices, calls
127.0.0.1:6379> AUTH ⟦{shell}⟧⏎OK
---> PASS ⟦{shell}⟧
machine git.example.com login deploy password ⟦{shell}⟧
kubectl config set-credentials admin --token=⟦{shell}⟧
oc login --token=⟦{shell}⟧ --server=https://api.example.com:6443
netlify deploy --auth ⟦{shell}⟧ --prod
cargo login ⟦{shell}⟧
mvn -s settings.xml deploy -Drepo.password=⟦{shell}⟧
./gradlew publish -Psigning.password=⟦{shell}⟧ -PossrhUsername=ci
java -Djavax.net.ssl.keyStorePassword=⟦{shell}⟧ -jar app.jar
7z x -p⟦{shell}⟧ archive.7z
curl --user 'elastic:⟦{shell}⟧' https://es:9200
curl -H "PRIVATE-TOKEN: ⟦{shell}⟧" https://gitlab.example.com/api/v4/projects
curl --data-urlencode "password=⟦{shell}⟧" https://x
curl --oauth2-bearer ⟦{shell}⟧ https://x
wget --header='Authorization: Basic ⟦{shell}⟧' https://x
vault login -method=userpass username=bob password=⟦{shell}⟧
SELECT pgp_sym_decrypt(secret, '⟦{shell}⟧') FROM t;
set smtp_url = "smtp://bob:⟦{shell}⟧@mail.example.com:587/"
snmpwalk -v3 -u bob -l authPriv -a SHA -A ⟦{shell}⟧ -x AES -X ⟦{shell}⟧ 10.0.0.1
username admin privilege 15 password 0 ⟦{shell}⟧
username admin secret ⟦{shell}⟧
crypto isakmp key ⟦{shell}⟧ address 0.0.0.0
set system root-authentication plain-text-password-value ⟦{shell}⟧
PrivateKey = ⟦{shell}⟧
tailscale up --auth-key ⟦{shell}⟧
$pw = ConvertTo-SecureString "⟦{shell}⟧" -AsPlainText -Force
New-LocalUser -Name bob -Password (ConvertTo-SecureString "⟦{shell}⟧" -AsPlainText -Force)
<key>Password</key>⏎⇥<string>⟦{shell}⟧</string>
usermod -p ⟦{shell}⟧ bob
cryptsetup luksOpen /dev/sda1 x <<< ⟦{shell}⟧
salt-call --id a --master m state.apply pillar='{"db_password": "⟦{shell}⟧"}'
argocd account update-password --current-password ⟦{shell}⟧ --new-password ⟦{shell}⟧
mytool --secret-key ⟦{shell}⟧ sync
mytool --auth=⟦{shell}⟧ sync
DATABASES = {'default': {'ENGINE': 'x', 'USER': 'a', 'PASSWORD': '⟦{any}⟧'}}
EMAIL_HOST_PASSWORD = '⟦{any}⟧'
production:⏎  adapter: postgresql⏎  password: <%= ENV.fetch("DB_PASS", "⟦{any}⟧") %>
let api_key: &str = "⟦{any}⟧";
props.put("mail.smtp.password", "⟦{any}⟧");
new PasswordAuthentication("bob", "⟦{any}⟧".toCharArray());
requests.get(u, params={"api_key": "⟦{any}⟧"})
smtp.login('bob@example.com', '⟦{any}⟧')
bot = telebot.TeleBot("⟦{any}⟧")
(setq my-api-key "⟦{any}⟧")
(setenv "GITHUB_TOKEN" "⟦{any}⟧")
set -gx GITHUB_TOKEN ⟦{line}⟧
#define API_KEY "⟦{any}⟧"
const char* pass = "⟦{any}⟧";
static let apiKey = "⟦{any}⟧"
hey, use ⟦{random}⟧ as the password for staging
Your new API key is: ⟦{random}⟧
amqp://app:⟦{random}⟧@mq:5672/vhost
Password: ⟦{random}⟧⏎Login successful
# old password: ⟦{random}⟧
psk ⟦{random}⟧
client secret ⟦{random}⟧

# program configuration of many syntaxes
{:db {:user "{user}" :password "⟦{any}⟧"}}
config :app, App.Mailer, username: "{user}", password: "⟦{any}⟧"
config :app, :{name}, "⟦{any}⟧"
.{camel}("⟦{any}⟧")
builder.with_{name}("⟦{any}⟧")
cfg.Set{Title}("⟦{any}⟧")
private static final String {NAME} = "⟦{any}⟧";
@Value("⟦{any}⟧") private String {camel};
$this->{camel} = '⟦{any}⟧';
os.Setenv("{NAME}", "⟦{any}⟧")
std::env::set_var("{NAME}", "⟦{any}⟧");
flag.String("{p.kebab}", "⟦{any}⟧", "{words}")
parser.add_argument("--{p.kebab}", default="⟦{any}⟧")
{camel}: process.env.{NAME} || "⟦{any}⟧",
{NAME} = ENV.fetch("{NAME}", "⟦{any}⟧")
return {"{name}": "⟦{any}⟧"}
{name}: String = "⟦{any}⟧"
{p.name} <- "⟦{any}⟧"
Sys.setenv({NAME} = "⟦{any}⟧")
set -x {NAME} ⟦{strong}⟧
$env:{NAME} = "⟦{any}⟧"
INSERT INTO users (name, password) VALUES ('{user}', '⟦{any}⟧');
CREATE USER {user} WITH ENCRYPTED PASSWORD '⟦{any}⟧';
# infrastructure
resource "aws_db_instance" "main" {⏎  username = "{user}"⏎  password = "⟦{any}⟧"⏎}
pulumi config set --secret {camel} ⟦{shell}⟧
kubectl create secret generic app --from-literal={kebab}=⟦{shell}⟧
helm upgrade app ./chart --set {camel}=⟦{shell}⟧
docker login -u {user} -p ⟦{shell}⟧ {host}
heroku config:set {NAME}=⟦{shell}⟧
fly secrets set {NAME}=⟦{shell}⟧
aws secretsmanager put-secret-value --secret-id app --secret-string "⟦{any}⟧"
etcdctl put /app/{name} "⟦{strong}⟧"
redis-cli -a ⟦{shell}⟧ ping
AUTH ⟦{strong}⟧
mysql -u {user} -p'⟦{any}⟧' app
http -a {user}:⟦{shell}⟧ GET https://{host}/api
wget --user={user} --password='⟦{any}⟧' https://{host}/a.zip
sshpass -p '⟦{any}⟧' ssh {user}@{host}
echo "⟦{any}⟧" | docker login -u {user} --password-stdin
openssl enc -aes-256-cbc -pass pass:⟦{shell}⟧ -in a -out b
gpg --batch --passphrase '⟦{any}⟧' -c {file}
7z a -p⟦{strong}⟧ a.7z {path}
npm config set //{host}/:_authToken ⟦{strong}⟧
//registry.example.org/:_authToken=⟦{uuid}⟧
curl -H "X-Vault-Token: ⟦{strong}⟧" https://{host}/v1/secret
curl -X POST -d 'grant_type=password&username={user}&password=⟦{shell}⟧' https://{host}/token
curl -d '{"user":"{user}","{p.name}":"⟦{any}⟧"}' https://{host}/login
Proxy-Authorization: Basic ⟦{userpass}⟧
X-Auth-Token: ⟦{strong}⟧
X-Amz-Security-Token: ⟦{b6464}⟧
Set-Cookie: ⟦sid={strong}; Path=/; HttpOnly⟧
new Client({ {camel}: '⟦{any}⟧', region: 'eu' })
jwt.sign(payload, '⟦{any}⟧', { expiresIn: '1h' })
hmac.new(b"⟦{any}⟧", msg, hashlib.sha256)
Fernet(b"⟦{url43}=⟧")
# files
machine {host} login {user} password ⟦{shell}⟧
{host}:5432:app:{user}:⟦{shell}⟧
<setting name="{Title}" serializeAs="String"><value>⟦{line}⟧</value></setting>
<init-param><param-name>{camel}</param-name><param-value>⟦{line}⟧</param-value></init-param>
  - {"key": "{name}", "value": "⟦{any}⟧", "enabled": true}
{"Key": "{Title}", "Value": "⟦{any}⟧"}
"{camel}": {"type": "string", "default": "⟦{any}⟧"}
"{camel}":⏎    "⟦{any}⟧",
{name}: >-⏎  ⟦{strong}⟧
{name}: !secret-value "⟦{any}⟧"
{name}: &anchor ⟦{strong}⟧
? {name}⏎: ⟦{line}⟧
snmp-server community ⟦{shell}⟧ RO
rpcpassword=⟦{shell}⟧
olcRootPW: ⟦{line}⟧
password ⟦{shell}⟧
auth_pass ⟦{shell}⟧
stats auth {user}:⟦{shell}⟧
proxy_set_header Authorization "Bearer ⟦{strong}⟧";
set $api_key "⟦{strong}⟧";
//{host}/share {path} cifs username={user},password=⟦{strong}⟧,uid=1000 0 0
useradd -p '⟦$6${alnum8}${b6486}⟧' {user}
# words, logs, tables
The {spaced} is ⟦{strong}⟧.
my {spaced} is "⟦{any}⟧"
I set the {spaced} to ⟦{strong}⟧ yesterday
{spaced} = ⟦{strong}⟧
**{spaced}**: `⟦{any}⟧`
`{NAME}`: `⟦{any}⟧`
log in as {user} with {p.spaced} ⟦{strong}⟧
login: {user}, pw: ⟦{shell}⟧
{spaced} for {host}: ⟦{line}⟧
Temporary {spaced} for {user}: ⟦{line}⟧
Generated {spaced}: ⟦{line}⟧
[sudo] password for {user}: ⟦{strong}⟧
Das Passwort lautet: ⟦{line}⟧
Passwort: ⟦{line}⟧
mot de passe : ⟦{line}⟧
2026-03-01 10:00:00 DEBUG connecting user={user} {p.name}=⟦{shell}⟧ host={host}
INFO auth: {name}='⟦{any}⟧' accepted
{'{name}': '⟦{any}⟧', 'port': 80}
| {spaced} | ⟦{strong}⟧ |
{name},⟦{strong}⟧
| user | password |⏎|---|---|⏎| {user} | ⟦{shell}⟧ |
fatal: {spaced} '⟦{strong}⟧' was rejected
psql: password "⟦{any}⟧" for user {user} is wrong
jdbc:postgresql://{host}/app?user={user}&password=⟦{strong}⟧
amqp://{user}:⟦{strong}⟧@{host}:5672/
redis://:⟦{strong}⟧@{host}:6379/0
https://⟦{strong}⟧@github.com/a/b.git
https://hooks.slack.com/services/⟦T{upper8}/B{upper8}/{alnum24}⟧
--header "{Title}: ⟦{strong}⟧"
tool -{Title} '⟦{any}⟧' -User {user}
Q: What is the wifi password? A: ⟦{strong}⟧
const {{ {camel} = "⟦{any}⟧" }} = opts;
{camel}="⟦{any}⟧" />
<Client {camel}="⟦{any}⟧" region="eu" />
case "{name}": return "⟦{any}⟧"
--build-arg {NAME}=⟦{shell}⟧
"""

INNOCENT = r"""
# code
{name}: bytes,
{name}: Vec<u8>
{camel}: Promise<string>
{camel}: () => void
{camel}!: string
var {camel} string
let {camel}: String?
readonly {camel}: string
@Column() {camel}: string;
char *{name};
std::string {name};
std::optional<std::string> {name};
String get{Title}() { return {camel}; }
void set{Title}(String value) { {camel} = value; }
def {name}(self) -> str:
def set_{name}(self, {ident}):
{name} = property({ident})
{name} = {Type}.objects.get(id={num})
{name} = {ident} or {ident}
{name} = {ident} + {ident}
{name} = str({ident})
{name} = ({ident}, {ident})
{name} = [{ident}, {ident}]
{name} = {}
{name} = lambda: {ident}
{name} = yield from {ident}()
{camel} = {ident} ?? {ident};
{camel} = {ident} ? {ident} : {ident};
{camel} = new {Type}({ident});
{camel} = {Type}::{ident}();
{camel} = &{ident};
{camel} = *{ident};
{camel} = !{ident};
{camel} += {ident};
{camel} == {ident}
{camel} === null
{camel}.length > {small}
{camel}.trim()
{ident}.{camel}
{ident}->{camel}
{ident}[{name}]
{ident}["{name}"]
{ident}.get("{name}")
{ident}.has("{camel}")
delete {ident}.{camel};
del {ident}["{name}"]
throw new Error("{spaced} {words}")
raise {Type}("no {spaced} for %s" % {ident})
assert {name}, "{words}"
@{name}
@pytest.fixture⏎def {name}():
pub {name}: Option<String>,
{name}: Option<&'a str>,
Some({name}) => {ident},
match {name} {
use crate::{ident}::{name};
#include "{name}.h"
import {name}
from {name} import {ident}
package {word}.{camel};
$this->{camel} = ${camel};
${camel} = $request->input('{name}');
<?php echo ${name}; ?>
@{name} = {ident}
attr_accessor :{name}
params.require(:user).permit(:{name})
t('{name}.{word}')
i18n.t("{camel}")
{{ {name} }}
{% if {name} %}
v-model="{camel}"
:{kebab}="{ident}"
[{camel}]="{ident}"
className="{kebab}"
id="{kebab}"
href="/{kebab}/{word}"
to="/{kebab}"
path: '/{kebab}',
route("{kebab}")
'/{kebab}': {Type},
url = "/api/{kebab}"
GET /api/{kebab}/{num} HTTP/1.1
POST /{kebab} 200 {small}ms
e.{camel}=void 0,t.{camel}=null
n.{camel}||(n.{camel}={ident}())
{camel}:function(e){return e}
{camel}:e,{ident}:t
Authorization:n?"Bearer ".concat(n):void 0
cookie:"{word}",{ident}:!0
setCookie("{word}",{ident},{small})
getCookie("{word}")
# config without secrets
{name}_enabled: true
{name}_provider: {word}
{name}_ref: {slug}
{name}_arn: arn:aws:iam::123456789012:role/{word}
{name}-file: {path}
{name}File: {path}/{file}
{camel}Url: https://{host}/{word}
{camel}Header: X-{Type}
{camel}Field: {word}
{camel}Policy: {word}
{NAME}_FILE={path}/{file}
{NAME}_URL=https://{host}/{word}
{NAME}_TTL={num}
{NAME}_HEADER=X-{Type}
{name}: !secret {ident}
{name}: !env {NAME}
{name}: env:{NAME}
{name}: vault:secret/data/{word}#{word}
{name}: ref+awssecrets://{word}/{word}
{name}: $__file{{path}}
{name}: $({NAME})
{name}: #{{NAME}}#
{name}: @@{NAME}@@
{name}: TODO
{name}: "none"
{name}: "required"
"{camel}": "string",
"{name}": "optional",
"{camel}": 0,
"{name}": [],
"{name}": {},
"{name}": "..."
"{name}": "…"
"{name}": "<redacted>"
"{name}": "xxxxx"
"{name}": "{{{name}}}"
"{name}": "%{NAME}%"
"{name}": "$({NAME})"
"{camel}": "{{ env.{NAME} }}"
{NAME}=<secret>
{NAME}='<your {spaced}>'
{NAME}="your {spaced} here"
{NAME}=...
{NAME}=null
export {NAME}
unset {NAME}
: "${{NAME}:?required}"
if [ -z "${NAME}" ]; then
[[ -n ${{NAME}} ]]
echo "${NAME}"
read -s {NAME}
read -rsp "{spaced}: " {name}
ARG {NAME}
ENV {NAME}=${{NAME}}
--build-arg {NAME}
--{kebab}-stdin
--no-{kebab}
[--{kebab}=<value>]
<!-- {spaced}: {words} -->
#  {name}: {words}
// {camel}: {words}
/* {spaced}: {words} */
:param {name}: {words}
@param {camel} {words}
@param {string} {camel} - {words}
{name} (str): {words}
{name} -- {words}
>>> help({name})
# ids, logs, prose
job {uuid} finished in {small}s
deploy {hex7} to {word}
{hex12} {slug} "{word}" {small} minutes ago Up
sha1: {hex40}
digest: sha256:{hex64}
fingerprint: SHA256:{b6443}
Fingerprint {HEX40}
serial: {HEX32}
nonce="{b6422}=="
<script integrity="sha384-{b6464}" crossorigin="anonymous"></script>
"commit": "{hex40}",
"sha": "{hex40}", "url": "https://{host}"
build-{num}-{hex8}.tar.gz
{word}-{hex10}-{alnum5} 1/1 Running 0 {small}d
i-{hex17} t3.micro
vpc-{hex17}
projects/{word}/locations/global/keyRings/{word}
urn:uuid:{uuid}
uid=1000({user}) gid=1000({user})
192.168.{small}.{small}:5432:{num}
ERROR: {spaced} mismatch for {user}
WARN {spaced} expires in {small} days
{spaced} changed by {user}
{spaced} verified
no {spaced} given
please enter your {spaced}
wrong {spaced}, try again
a {spaced} of at least {small} characters
how to reset a {spaced}?
{spaced}s are never stored
[{spaced}](https://{host}/{kebab})
### {spaced}
1. Create a {spaced}
- [ ] rotate {spaced}
| {spaced} | {words} |
| Name | Type |⏎|---|---|⏎| {name} | string |
| flag | default |⏎|---|---|⏎| --{kebab} | none |
name,type,required⏎{name},string,true
"I forgot my {spaced}," said {user}.
token ring {words}
the key point is {words}
key: value
secret garden
pass the {word} to {ident}
passing {ident}: {words}
pass: {small}, fail: {small}
Passed: {num} Failed: {num}
authentication: {words}
auth: none
signature: {ident}({ident}: {Type}) -> {Type}
session: {words}
salt and pepper
cookie: {words}
cookies: {words}
bearer: {word}
credential helper: {word}
credential.helper=store
user.signingkey={HEX16}
keyring: {path}
"{word}": "{slug}",
{word}={slug}
{word}: {words}

# code
{camel}?: string | null;
{name} = config["{name}"]
{name} = self._{name}
self.{name} = {name}
function {camel}({camel}) { return {ident}({camel}); }
{camel}={{camel}}
<label for="{kebab}">{spaced}</label>
<Field name="{camel}" type="password" />
from app.{name} import {Title}
{name} = Column(String(255), nullable=False)
ALTER TABLE users ADD COLUMN {name} text;
while token.type != "EOF":
case Token.{Title}:
"type": "password",
"required": ["{name}", "{ident}"],
"{name}": {"type": "string", "description": "{words}"}
{name}: str = Field(..., description="{words}")
{NAME} = "{NAME}"
{NAME}_PATH=/run/secrets/{name}
{name}_length = {small}
max_{name}_age: {num}
{name}_url: https://{host}/{kebab}
os.environ["{NAME}"]
{name} = var.{name}
{name} = data.vault.app.{name}
  valueFrom:⏎    secretKeyRef:⏎      name: {kebab}⏎      key: {kebab}
{NAME}=changeme
{name}: xxxxxxxx
{name}: ""
--{kebab} <{NAME}>  {words}
--{kebab} string   {words}
  --{kebab} TEXT  {words}
curl -u "${USER}:${PASS}" https://{host}
curl -H "Authorization: Bearer $TOKEN" https://{host}
docker login -u {user} --password-stdin
git commit -m "Rotate {spaced}"
{hex7} Rename {name} to {ident}
"resolved": "https://registry.example.org/{slug}/-/{slug}-{ver}.tgz#{hex40}"
sha256:{hex64}
ETag: "{hex32}"
etag: W/"{hex32}"
request_id={uuid} status=200
"uuid":"{uuid}","parentUuid":"{uuid}"
main.{hex20}.css
/assets/index-{alnum8}.js
blob {hex40} {num}
checksum = "{hex64}"
"hash": "{hex64}",
"commit": "{hex40}"
foreign key ({name}_id) references {ident}(id)
# words
The {spaced} is required
Is the {spaced} set?
Check that the {spaced} is valid and try again.
Reads {NAME} from the environment
- `--{kebab}`: {words}
feat({word}): add {spaced} support
error: missing required option --{kebab}
/usr/lib/{name}/{file}
src/{name}/{file}:{num}:{small}
-rw------- 1 {user} {user} {num} {date} {name}.txt
https://{host}/docs/{kebab}
https://{host}/@{user}/{slug}
postgres://{host}/app
mail {user}@{host}
max_tokens={num}
token count {num}
"tokenizer_class": "{Title}"
pad_token="<pad>"
password: string
password: required
password_hash: bcrypt
password = input("{spaced}: ")
passwordInput.value = ""
const isPasswordValid = {camel}.length > {small};
secretName: {slug}
secretsmanager:GetSecretValue
kind: Secret⏎metadata:⏎  name: {slug}
pass
pw = Playwright()
author: {word}
passport: {slug}
keyboard: {word}
monkey: {word}
"""
