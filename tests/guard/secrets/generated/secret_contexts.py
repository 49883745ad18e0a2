"""Where secrets stand: one context a line, ⟦ ⟧ enclose what must be masked, ⏎ is a line break, ⇥ a tab.

`{NAME}`, `{name}`, `{kebab}`, `{dotted}`, `{camel}`, `{Title}`, `{spaced}` are one drawn name in several styles
(with `p.` in front: a name of a password). `{any}` is a secret for quotes, `{line}` one that ends with its line,
`{shell}` one without characters that a shell treats, `{random}` one that looks random. `{hex40}` and the like give
alphabet and length. Contexts may gain lines; a line that was scored is not dropped.
"""

CONTEXTS = r"""
# JSON
"{name}": "⟦{any}⟧"
"{camel}": "⟦{any}⟧",
{"{camel}":"⟦{any}⟧"}
{"user": "{user}", "{name}": "⟦{any}⟧", "port": 5432}
{"id": 7, "{camel}": "⟦{line}⟧"}
  "{NAME}": "⟦{any}⟧",
{"db": {"host": "{host}", "{p.name}": "⟦{any}⟧"}}
{\"{name}\": \"⟦{line}⟧\"}
{"body": "{\"{camel}\":\"⟦{line}⟧\"}"}
{'{name}': '⟦{any}⟧'}
{"env": [{"name": "{NAME}", "value": "⟦{any}⟧"}]}
{"key": "{name}", "value": "⟦{any}⟧"}
{"Key": "{NAME}", "Value": "⟦{line}⟧"}
{⏎  "name": "{NAME}",⏎  "value": "⟦{line}⟧"⏎}
"{kebab}" : "⟦{any}⟧"
{"{p.name}": ⟦{digit8}⟧, "ok": true}
{"data": {"{name}": "⟦{line}⟧"}, "status": 200}
[{"{name}": "⟦{line}⟧"}]
"{spaced}": "⟦{any}⟧"
# YAML
{name}: ⟦{line}⟧
{camel}: ⟦{line}⟧
  {NAME}: ⟦{line}⟧
    {name}: "⟦{any}⟧"
    {camel}: '⟦{any}⟧'
  - {name}: ⟦{line}⟧
- name: {NAME}⏎  value: ⟦{line}⟧
- name: {NAME}⏎  value: "⟦{any}⟧"
env:⏎  {NAME}: ⟦{line}⟧⏎  PORT: 8080
environment:⏎  - {NAME}=⟦{line}⟧
      - "{NAME}=⟦{line}⟧"
stringData:⏎  {name}: ⟦{line}⟧
{name}: ⟦{line}⟧  # rotate me
{kebab}: "⟦{any}⟧"
{name}: >-⏎  ⟦{line}⟧
{name}: |⏎  ⟦{line}⟧
vars: { {name}: "⟦{any}⟧" }
auth: {user: {user}, {p.name}: ⟦{shell}⟧}
ansible_become_pass: ⟦{line}⟧
ansible_ssh_pass: "⟦{any}⟧"
services:⏎  db:⏎    environment:⏎      POSTGRES_PASSWORD: ⟦{line}⟧
spring:⏎  datasource:⏎    username: app⏎    password: ⟦{line}⟧
# TOML, INI, properties, dotenv
{name} = "⟦{any}⟧"
{name} = '⟦{any}⟧'
{kebab} = "⟦{any}⟧"
[database]⏎{p.name} = "⟦{any}⟧"
[client]⏎user = {user}⏎{p.name} = ⟦{line}⟧
[default]⏎aws_access_key_id = ⟦AKIA{upper16}⟧⏎aws_secret_access_key = ⟦{b6440}⟧
{p.name}=⟦{line}⟧
{name}=⟦{line}⟧
{dotted}=⟦{line}⟧
spring.{dotted}=⟦{line}⟧
app.{dotted}: ⟦{line}⟧
signing.password=⟦{line}⟧
systemProp.{dotted}=⟦{line}⟧
{NAME}=⟦{line}⟧
{NAME}="⟦{any}⟧"
{NAME}='⟦{any}⟧'
export {NAME}=⟦{shell}⟧
export {NAME}="⟦{any}⟧"
export {NAME}='⟦{any}⟧'
set {NAME}=⟦{line}⟧
setx {NAME} "⟦{line}⟧"
$env:{NAME} = "⟦{any}⟧"
$env:{NAME}='⟦{any}⟧'
set -x {NAME} ⟦{shell}⟧
set -gx {NAME} "⟦{any}⟧"
setenv {NAME} ⟦{shell}⟧
declare -x {NAME}="⟦{any}⟧"
ENV {NAME}=⟦{shell}⟧
ENV {NAME} ⟦{shell}⟧
ARG {NAME}=⟦{shell}⟧
{NAME} := ⟦{shell}⟧
{NAME} ?= ⟦{shell}⟧
{NAME}=⟦{shell}⟧ ./run.sh --fast
env {NAME}=⟦{shell}⟧ make deploy
{NAME}: ${{NAME}:-⟦{strong}⟧}
Environment={NAME}=⟦{shell}⟧
Environment="{NAME}=⟦{line}⟧"
fastcgi_param {NAME} "⟦{any}⟧";
SetEnv {NAME} ⟦{shell}⟧
{NAME}⇥⟦{strong}⟧
token⇥⟦{strong}⟧
password⇥⟦{random}⟧
TF_VAR_{name}=⟦{shell}⟧
{name} = ⟦{strong}⟧
PrivateKey = ⟦{b6443}=⟧
[Interface]⏎PrivateKey = ⟦{b6443}=⟧⏎Address = 10.0.0.2/24
[Peer]⏎PublicKey = {b6443}=⏎PresharedKey = ⟦{b6443}=⟧
psk="⟦{any}⟧"
network={⏎  ssid="{word}"⏎  psk="⟦{line}⟧"⏎}
wpa_passphrase=⟦{line}⟧
# code
{name} = "⟦{any}⟧"  # noqa
self.{name} = "⟦{any}⟧"
self._{name} = '⟦{any}⟧'
{name}: str = "⟦{any}⟧"
const {camel} = "⟦{any}⟧";
const {camel} = '⟦{any}⟧';
let {camel} = `⟦{line}⟧`;
var {camel} = "⟦{any}⟧"
const {camel}: string = "⟦{any}⟧";
export const {NAME} = '⟦{any}⟧';
this.{camel} = "⟦{any}⟧";
{camel}: '⟦{any}⟧',
{camel}: "⟦{any}⟧",
{ user: '{user}', {camel}: '⟦{any}⟧' }
connect(host="{host}", {p.name}="⟦{any}⟧")
Client(api_key="⟦{any}⟧")
requests.post(url, json={"{name}": "⟦{any}⟧"})
requests.get(url, auth=("{user}", "⟦{any}⟧"))
requests.get(url, cookies={"sessionid": "⟦{strong}⟧"})
HTTPBasicAuth("{user}", "⟦{any}⟧")
os.environ["{NAME}"] = "⟦{any}⟧"
os.environ['{NAME}'] = '⟦{any}⟧'
os.environ.setdefault("{NAME}", "⟦{random}⟧")
os.environ.get("{NAME}", "⟦{strong}⟧")
os.getenv("{NAME}", "⟦{strong}⟧")
monkeypatch.setenv("{NAME}", "⟦{strong}⟧")
process.env.{NAME} = "⟦{any}⟧";
process.env.{NAME} || "⟦{strong}⟧"
ENV["{NAME}"] = "⟦{any}⟧"
ENV.fetch("{NAME}", "⟦{strong}⟧")
os.Setenv("{NAME}", "⟦{random}⟧")
{camel} := "⟦{any}⟧"
{Title}: "⟦{any}⟧",
cfg.{Title} = "⟦{any}⟧"
let {name} = String::from("⟦{any}⟧");
let {name} = "⟦{any}⟧".to_string();
let {name}: &str = "⟦{any}⟧";
const {NAME}: &str = "⟦{any}⟧";
{name}: Some("⟦{any}⟧".into()),
{name}: SecretString::new("⟦{any}⟧".to_owned()),
String {camel} = "⟦{any}⟧";
private static final String {NAME} = "⟦{any}⟧";
final String {camel} = new String("⟦{any}⟧");
.{camel}("⟦{random}⟧")
.set{Title}("⟦{random}⟧")
.with{Title}("⟦{random}⟧")
DriverManager.getConnection(url, "{user}", "⟦{random}⟧")
var {camel} = @"⟦{any}⟧";
public const string {Title} = "⟦{any}⟧";
new NetworkCredential("{user}", "⟦{any}⟧")
#define {NAME} "⟦{any}⟧"
char {name}[] = "⟦{any}⟧";
const char *{name} = "⟦{any}⟧";
static const char* k{Title} = "⟦{any}⟧";
std::string {name} = "⟦{any}⟧";
std::string {name}("⟦{any}⟧");
NSString *{camel} = @"⟦{any}⟧";
val {camel} = "⟦{any}⟧"
val {camel}: String = "⟦{any}⟧"
let {camel}: String = "⟦{any}⟧"
static let {camel} = "⟦{any}⟧"
${name} = '⟦{any}⟧';
'{name}' => '⟦{any}⟧',
"{name}" => "⟦{any}⟧",
:{name} => "⟦{any}⟧",
{name}: "⟦{any}⟧",
define('{NAME}', '⟦{any}⟧');
define( 'AUTH_KEY',         '⟦{salt64}⟧' );
define('SECURE_AUTH_SALT', '⟦{salt64}⟧');
define('LOGGED_IN_KEY',    '⟦{salt64}⟧');
define('NONCE_SALT',       '⟦{salt64}⟧');
config.{name} = "⟦{any}⟧"
config["{name}"] = "⟦{any}⟧"
app.config['SECRET_KEY'] = '⟦{any}⟧'
my ${name} = "⟦{any}⟧";
local {name} = "⟦{any}⟧"
{name} <- "⟦{any}⟧"
Sys.setenv({NAME} = "⟦{any}⟧")
{name}="⟦{any}⟧",
dict({name}="⟦{any}⟧")
variable "{name}" { default = "⟦{any}⟧" }
default = "⟦ghp_{alnum36}⟧"
  {name} = "⟦{any}⟧"
buildConfigField "String", "{NAME}", "\"⟦{strong}⟧\""
storePassword "⟦{any}⟧"
keyPassword '⟦{any}⟧'
{name} = os.environ.get("X") or "⟦{strong}⟧"
if {name} == "⟦{strong}⟧":
assert {name} == "⟦{strong}⟧"
# XML and HTML
<{p.name}>⟦{line}⟧</{p.name}>
<{camel}>⟦{line}⟧</{camel}>
<add key="{Title}" value="⟦{any}⟧" />
<property name="{p.name}" value="⟦{any}⟧"/>
<property name="{p.dotted}">⟦{line}⟧</property>
<entry key="{dotted}">⟦{line}⟧</entry>
<string name="{name}">⟦{line}⟧</string>
<connection user="{user}" {p.name}="⟦{any}⟧"/>
<input type="hidden" name="csrf_token" value="⟦{strong}⟧">
<meta name="csrf-token" content="⟦{strong}⟧">
<key>{Title}</key>⏎<string>⟦{line}⟧</string>
<server><id>x</id><username>{user}</username><password>⟦{line}⟧</password></server>
&quot;{name}&quot;: &quot;⟦{shell}⟧&quot;
<setting name="{Title}"><value>⟦{line}⟧</value></setting>
# command lines
curl -u {user}:⟦{shell}⟧ https://{host}/v1
curl -u "{user}:⟦{line}⟧" https://{host}/v1
curl --user {user}:⟦{shell}⟧ https://{host}
curl -u {user}:⟦{digit8}⟧ https://{host}
curl -sS -X POST --user '{user}:⟦{any}⟧' https://{host}
curl -H "Authorization: Bearer ⟦{strong}⟧" https://{host}
curl -H 'X-Api-Key: ⟦{shell}⟧' https://{host}
curl -d 'user={user}&password=⟦{shell}⟧' https://{host}/login
curl -d '{"user":"{user}","password":"⟦{line}⟧"}' https://{host}/login
curl -F "{p.name}=⟦{line}⟧" https://{host}/form
curl --proxy-user {user}:⟦{shell}⟧ https://{host}
curl --oauth2-bearer ⟦{strong}⟧ https://{host}
curl -b "⟦session={strong}⟧" https://{host}
curl --cookie '⟦sid={strong}⟧' https://{host}
wget --user={user} --password=⟦{shell}⟧ https://{host}/a.tgz
http -a {user}:⟦{shell}⟧ https://{host}
app --{p.kebab} ⟦{shell}⟧
app --{p.kebab}=⟦{shell}⟧
app --{kebab} ⟦{shell}⟧ --verbose
app --{kebab}=⟦{shell}⟧ --verbose
app --{kebab} "⟦{any}⟧"
app --{kebab}='⟦{any}⟧'
app -{p.camel} ⟦{shell}⟧
setup.exe /{p.camel}:⟦{shell}⟧ /quiet
setup.exe /quiet /password:⟦{shell}⟧
xfreerdp /v:{host} /u:{user} /p:⟦{shell}⟧
sshpass -p ⟦{shell}⟧ ssh {user}@{host}
sshpass -p'⟦{line}⟧' scp a {user}@{host}:
mysql -u root -p⟦{shell}⟧ -e 'select 1'
mysqldump -h {host} -u {user} -p'⟦{line}⟧' app
mysql --user={user} --password=⟦{shell}⟧ app
PGPASSWORD=⟦{shell}⟧ psql -h {host}
PGPASSWORD='⟦{any}⟧' psql -h {host}
psql "host={host} user={user} password=⟦{shell}⟧"
docker login -u {user} -p ⟦{shell}⟧ {host}
docker login --username {user} --password ⟦{shell}⟧
docker run -e {NAME}=⟦{shell}⟧ app
docker run --env {NAME}="⟦{line}⟧" app
docker build --build-arg {NAME}=⟦{shell}⟧ .
podman run -e '{NAME}=⟦{line}⟧' app
kubectl create secret generic db --from-literal={name}=⟦{shell}⟧
kubectl create secret generic db --from-literal=whatever=⟦{shell}⟧
kubectl create secret docker-registry r --docker-password=⟦{shell}⟧
kubectl config set-credentials u --token=⟦{strong}⟧
helm install x --set {p.dotted}=⟦{shell}⟧
helm upgrade x . --set-string {camel}=⟦{shell}⟧
redis-cli -h {host} -a ⟦{shell}⟧ ping
mongosh -u {user} -p ⟦{shell}⟧ {host}
gpg --batch --passphrase ⟦{shell}⟧ -d a.gpg
gpg --passphrase '⟦{any}⟧' -c a.txt
openssl rsa -in k.pem -passin pass:⟦{shell}⟧
openssl enc -aes-256-cbc -pass pass:⟦{shell}⟧ -in a
openssl enc -aes-256-cbc -k ⟦{shell}⟧ -in a
htpasswd -bc .htpasswd {user} ⟦{shell}⟧
echo '⟦{line}⟧' | sudo -S apt update
echo "{user}:⟦{shell}⟧" | chpasswd
echo ⟦{strong}⟧ | docker login --password-stdin -u {user}
echo "⟦{line}⟧" | gh secret set {NAME}
gh secret set {NAME} --body "⟦{any}⟧"
gh secret set {NAME} -b ⟦{shell}⟧
gh secret set {NAME} --body=⟦{shell}⟧
gh auth login --with-token <<< "⟦ghp_{alnum36}⟧"
az keyvault secret set --vault-name v --name n --value "⟦{any}⟧"
az login --service-principal -u app -p ⟦{shell}⟧ --tenant t
aws configure set aws_secret_access_key ⟦{b6440}⟧
aws secretsmanager create-secret --name n --secret-string "⟦{line}⟧"
aws ssm put-parameter --name /n --type SecureString --value "⟦{line}⟧"
aws rds modify-db-instance --master-user-password ⟦{shell}⟧
vault login ⟦hvs.{url95}⟧
vault kv put secret/app {name}=⟦{shell}⟧
vault login -method=userpass username={user} password=⟦{shell}⟧
fly secrets set {NAME}=⟦{shell}⟧
heroku config:set {NAME}=⟦{shell}⟧
dotnet user-secrets set "{Title}" "⟦{any}⟧"
nuget push a.nupkg -ApiKey ⟦{shell}⟧
npm config set //registry.example.com/:_authToken ⟦{strong}⟧
//registry.example.com/:_authToken=⟦{strong}⟧
//registry.example.com/:_password=⟦{b6420}⟧
_auth=⟦{userpass}⟧
poetry config pypi-token.pypi ⟦{strong}⟧
cargo login ⟦{strong}⟧
keytool -genkey -alias a -storepass ⟦{shell}⟧ -keypass ⟦{shell}⟧
keytool -list -keystore k.jks -storepass ⟦{shell}⟧
jarsigner -storepass ⟦{shell}⟧ a.jar alias
net use Z: \\srv\share ⟦{shell}⟧ /user:{user}
net use \\srv\share /user:{user} ⟦{shell}⟧
net user {user} ⟦{shell}⟧ /add
cmdkey /add:{host} /user:{user} /pass:⟦{shell}⟧
sqlplus {user}/⟦{shell}⟧@//{host}:1521/orcl
sqlplus {user}/⟦{shell}⟧@ORCL @run.sql
sqlcmd -S {host} -U sa -P ⟦{shell}⟧ -Q "select 1"
bcp t out f -S {host} -U sa -P ⟦{shell}⟧
isql -U sa -P ⟦{shell}⟧ -S {host}
ldapsearch -D cn=admin -w ⟦{shell}⟧ -b dc=x
smbclient //srv/share -U {user}%⟦{shell}⟧
mount -t cifs //srv/share /mnt -o username={user},password=⟦{shell}⟧
sshfs {user}@{host}: /mnt -o password=⟦{shell}⟧
rclone config create x webdav pass=⟦{shell}⟧
lftp -u {user},⟦{shell}⟧ {host}
ftp -p ⟦{shell}⟧ {host}
ipmitool -H {host} -U {user} -P ⟦{shell}⟧ power on
mosquitto_pub -h {host} -u {user} -P ⟦{shell}⟧ -t a
zip -P ⟦{shell}⟧ a.zip b
unzip -P ⟦{shell}⟧ a.zip
7z x -p⟦{shell}⟧ backup.7z
rabbitmqctl add_user {user} ⟦{shell}⟧
rabbitmqctl change_password {user} '⟦{line}⟧'
nmcli dev wifi connect home password ⟦{shell}⟧
security add-generic-password -a {user} -s x -w ⟦{shell}⟧
ssh-keygen -t ed25519 -N '⟦{any}⟧' -f k
$sec = ConvertTo-SecureString "⟦{any}⟧" -AsPlainText -Force
ansible all -e "ansible_become_pass=⟦{shell}⟧"
ansible-playbook -e {name}=⟦{shell}⟧ site.yml
terraform apply -var '{name}=⟦{line}⟧'
twine upload -u __token__ -p ⟦{shell}⟧ dist/*
snmpwalk -v3 -u {user} -A ⟦{shell}⟧ -X ⟦{shell}⟧ {host}
deploy --{kebab} \⏎  ⟦{shell}⟧ \⏎  --region eu
wpa_passphrase home ⟦{shell}⟧
composer config http-basic.{host} {user} ⟦{shell}⟧
git config --global github.token ⟦{strong}⟧
useradd -m -p ⟦{shell}⟧ {user}
echo "⟦{line}⟧" | passwd --stdin {user}
requirepass ⟦{shell}⟧
redis-server --requirepass ⟦{shell}⟧
AUTH ⟦{strong}⟧
# SQL
CREATE USER app WITH PASSWORD '⟦{any}⟧';
CREATE USER 'app'@'%' IDENTIFIED BY '⟦{any}⟧';
CREATE USER app IDENTIFIED BY "⟦{any}⟧";
ALTER USER app IDENTIFIED WITH mysql_native_password BY '⟦{any}⟧';
ALTER ROLE app PASSWORD '⟦{any}⟧'
CREATE LOGIN app WITH PASSWORD = '⟦{any}⟧';
CREATE LOGIN app WITH PASSWORD = N'⟦{any}⟧';
SET PASSWORD FOR 'app'@'%' = PASSWORD('⟦{any}⟧');
GRANT ALL ON *.* TO 'app'@'%' IDENTIFIED BY '⟦{any}⟧';
UPDATE users SET password = '⟦{any}⟧' WHERE id = 7
create user app identified by ⟦{shell}⟧;
# addresses and connection strings
postgres://{user}:⟦{shell}⟧@{host}:5432/app
DATABASE_URL=mysql://root:⟦{shell}⟧@{host}/app
redis://:⟦{shell}⟧@{host}:6379/0
amqps://{user}:⟦{pw}@{pw}⟧@{host}/vhost
postgres://{user}:⟦{pw}@{pw}⟧@{host}:5432/app
mongodb+srv://{user}:⟦{shell}⟧@{host}/test?retryWrites=true
https://{user}:⟦{shell}⟧@{host}/a.git
https://⟦{strong}⟧@{host}/a.git
https://⟦ghp_{alnum36}⟧@github.com/a/b.git
https://⟦{strong}⟧:x-oauth-basic@github.com/a/b.git
https://⟦{hex32}⟧@o{digit6}.ingest.sentry.io/{digit7}
SENTRY_DSN=https://⟦{hex32}⟧@sentry.{host}/42
ftp://{user}:⟦{shell}⟧@{host}/pub
smtp://{user}%40{host}:⟦{shell}⟧@{host}:587
jdbc:oracle:thin:{user}/⟦{shell}⟧@{host}:1521:orcl
jdbc:oracle:thin:{user}/⟦{shell}⟧@//{host}:1521/orcl
jdbc:mysql://{host}/app?user=root&password=⟦{shell}⟧&useSSL=false
jdbc:sqlserver://{host};databaseName=app;user=sa;password=⟦{shell}⟧;encrypt=true
jdbc:postgresql://{host}/app?user=app&password=⟦{shell}⟧
Server={host};Database=app;User Id=sa;Password=⟦{line}⟧;Encrypt=true
Data Source={host};User ID=sa;Pwd=⟦{shell}⟧
"Default": "Host={host};Username=u;Password=⟦{shell}⟧"
DefaultEndpointsProtocol=https;AccountName=a;AccountKey=⟦{b6486}==⟧;EndpointSuffix=core.windows.net
Endpoint=sb://{host}/;SharedAccessKeyName=Root;SharedAccessKey=⟦{b6443}=⟧
https://{host}/api?access_token=⟦{shell}⟧&format=json
https://{host}/api?key=1&api_key=⟦{shell}⟧
https://{host}/cb?code=7&client_secret=⟦{shell}⟧
GET /v1/items?token=⟦{shell}⟧ HTTP/1.1
https://{host}/c?sv=2022&sig=⟦{b6443}%3D⟧
https://api.telegram.org/bot⟦{digit10}:AA{url33}⟧/getMe
https://hooks.slack.com/services/⟦T{upper8}/B{upper10}/{alnum24}⟧
https://discord.com/api/webhooks/{digit18}/⟦{url68}⟧
password%3D⟦{strong}⟧
%22{name}%22%3A%22⟦{strong}⟧%22
{user}:⟦{shell}⟧@tcp(127.0.0.1:3306)/app
socks5://{user}:⟦{shell}⟧@{host}:1080
# headers and cookies
Authorization: Bearer ⟦{strong}⟧
authorization: bearer ⟦{shell}⟧
Authorization: Basic ⟦{userpass}⟧
Authorization: token ⟦{hex40}⟧
Authorization: ⟦{strong}⟧
Proxy-Authorization: Basic ⟦{userpass}⟧
"Authorization": "Bearer ⟦{shell}⟧"
headers = {"Authorization": "Bearer ⟦{strong}⟧"}
X-Api-Key: ⟦{shell}⟧
X-Auth-Token: ⟦{shell}⟧
PRIVATE-TOKEN: ⟦{strong}⟧
X-Vault-Token: ⟦{strong}⟧
x-amz-security-token: ⟦{b64200}⟧
Cookie: ⟦session={strong}⟧
Cookie: ⟦sid={strong}; theme=dark⟧
Set-Cookie: ⟦sid={strong}; Path=/; HttpOnly⟧
"Cookie": "⟦sid={strong}⟧"
{"name": "Cookie", "value": "⟦sid={strong}⟧"}
{"name": "Authorization", "value": "Bearer ⟦{strong}⟧"}
.{host}⇥TRUE⇥/⇥TRUE⇥17{digit8}⇥sid⇥⟦{strong}⟧
#HttpOnly_.{host}⇥TRUE⇥/⇥TRUE⇥0⇥session⇥⟦{strong}⟧
"cookies": [{"name": "sid", "value": "⟦{strong}⟧"}]
"cookies": [⏎  {⏎    "name": "sid",⏎    "value": "⟦{strong}⟧"⏎  }⏎]
cookies={'sessionid': '⟦{strong}⟧'}
X-CSRF-Token: ⟦{strong}⟧
# provider tokens
use ⟦ghp_{alnum36}⟧ here
⟦github_pat_{alnum22}_{alnum59}⟧
backup_⟦ghp_{alnum36}⟧.tar.gz
^I⟦ghp_{alnum36}⟧
x⟦ghp_{alnum36}⟧
log_⟦glpat-{url20}⟧.txt
key_⟦AKIA{upper16}⟧_old
⟦AKIA{upper16}⟧
id=⟦ASIA{upper16}⟧
⟦xoxb-{digit12}-{digit12}-{alnum24}⟧
⟦sk_live_{alnum24}⟧
⟦sk-ant-api03-{url93}AA⟧
⟦sk-proj-{url64}T3BlbkFJ{url40}⟧
⟦AIza{url35}⟧
⟦npm_{alnum36}⟧
⟦hf_{alnum34}⟧
⟦SG.{url22}.{url43}⟧
⟦dop_v1_{hex64}⟧
⟦pypi-AgEIcHlwaS5vcmc{url80}⟧
⟦glpat-{url20}⟧
⟦{jwt}⟧
id {uuid} ⟦{jwt}⟧ end
bot ⟦{digit10}:AA{url33}⟧ started
bot.run("⟦MTAx{alnum22}.{alnum6}.{alnum38}⟧")
DISCORD_TOKEN=⟦MTAx{alnum22}.{alnum6}.{alnum38}⟧
TWILIO_AUTH_TOKEN=⟦{hex32}⟧
curl -u AC{hex32}:⟦{hex32}⟧ https://api.twilio.com
Client("AC{hex32}", "⟦{hex32}⟧")
⟦SK{hex32}⟧
⟦whsec_{alnum32}⟧
⟦AGE-SECRET-KEY-1{upper58}⟧
⟦hvs.{url95}⟧
⟦dapi{hex32}⟧
⟦shpat_{hex32}⟧
⟦tskey-auth-{alnum16}-{alnum32}⟧
⟦glsa_{alnum32}_{hex8}⟧
⟦lin_api_{alnum40}⟧
⟦gsk_{alnum52}⟧
⟦r8_{alnum37}⟧
⟦GOCSPX-{url28}⟧
⟦ya29.{url100}⟧
⟦EAA{alnum120}⟧
⟦NRAK-{upper27}⟧
⟦rubygems_{hex48}⟧
⟦sq0atp-{url22}⟧
⟦PMAK-{hex24}-{hex34}⟧
⟦pul-{hex40}⟧
⟦ATATT3{url180}⟧
⟦dckr_pat_{url27}⟧
⟦SWMTKN-1-{alnum50}-{alnum25}⟧
⟦slr1.{url80}.{url86}⟧
# keys
⟦-----BEGIN RSA PRIVATE KEY-----⏎{b6464}⏎{b6464}⏎{b6464}⏎{b6420}==⏎-----END RSA PRIVATE KEY-----⟧
⟦-----BEGIN OPENSSH PRIVATE KEY-----⏎{b6470}⏎{b6470}⏎{b6440}=⏎-----END OPENSSH PRIVATE KEY-----⟧
⟦-----BEGIN PRIVATE KEY-----⏎{b6464}⏎{b6464}⟧
"private_key": "⟦-----BEGIN PRIVATE KEY-----\n{b6464}\n{b6464}\n-----END PRIVATE KEY-----⟧\n"
cut here⏎⟦{b6464}⏎{b6464}⏎{b6464}⏎{b6440}⏎-----END RSA PRIVATE KEY-----⟧
⟦MIIEpAIBAAKCAQEA{b6448}⏎{b6464}⏎{b6464}⏎{b6440}⟧⏎
client-key-data: ⟦LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQ{b64400}==⟧
tls.key: ⟦LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0t{b64400}==⟧
data:⏎  password: ⟦{b6424}⟧⏎  username: YXBw
data:⏎  {kebab}: ⟦{b6424}⟧
# wrapped
⟦ghp_{alnum20}⏎{alnum16}⟧
the key is ⟦sk-ant-api03-{url50}⏎{url43}AA⟧
token: ⟦glpat-{url9}⏎{url11}⟧
{NAME}=⟦{alnum60}⏎{alnum30}⟧
"{name}": "⟦{alnum50}⏎{alnum30}⟧",
⟦eyJ{url33}.eyJ{url30}⏎{url40}.{url43}⟧
# files of credentials
machine {host} login {user} password ⟦{shell}⟧
machine {host}⏎login {user}⏎password ⟦{shell}⟧
machine {host}⏎  login {user}⏎  password ⟦{line}⟧
{host}:5432:app:{user}:⟦{shell}⟧
*:*:*:{user}:⟦{shell}⟧
localhost:5432:*:postgres:⟦{line}⟧
User name,Password,Access key ID,Secret access key⏎{user},⟦{shell}⟧,⟦AKIA{upper16}⟧,⟦{b6440}⟧
Access key ID,Secret access key⏎⟦AKIA{upper16}⟧,⟦{b6440}⟧
username,password,role⏎{user},⟦{shell}⟧,admin⏎carol,⟦{shell}⟧,user
"name","url","username","password"⏎"x","https://{host}","{user}","⟦{line}⟧"
id;user;password⏎1;{user};⟦{shell}⟧
name⇥token⏎{user}⇥⟦{strong}⟧
| user | password |⏎|---|---|⏎| {user} | ⟦{shell}⟧ |
| Service | API key |⏎|:--|:--|⏎| {word} | `⟦{strong}⟧` |
| password | ⟦{random}⟧ |
| {Title} | `⟦{random}⟧` |
 id | name | password⏎----+------+---------⏎  1 | {user} | ⟦{random}⟧
{"auths":{"{host}":{"auth":"⟦{userpass}⟧"}}}
Content-Disposition: form-data; name="{p.name}"⏎⏎⟦{line}⟧⏎------x
Content-Disposition: form-data; name="token"⏎⏎⟦{shell}⟧⏎------x--
root:⟦$6${alnum16}${alnum86}⟧:19000:0:99999:7:::
{user}:⟦$apr1${alnum8}${alnum22}⟧
Recovery codes:⏎⟦{hex5}-{hex5}⟧⏎⟦{hex5}-{hex5}⟧⏎⟦{hex5}-{hex5}⟧
Backup codes: ⟦{digit4} {digit4}⟧
recovery code: ⟦{alnum5}-{alnum5}⟧
otpauth://totp/{word}:{user}?secret=⟦{upper32}⟧&issuer={word}
# prose, chats and logs
my api key is ⟦{strong}⟧
My API key is ⟦{random}⟧, please use it
the password is ⟦{random}⟧
The password for the staging box is ⟦{random}⟧.
use token ⟦{strong}⟧ for the request
here's the token: ⟦{strong}⟧
Here is my key: ⟦{strong}⟧
Password: ⟦{line}⟧
**Password:** ⟦{line}⟧
- Password: `⟦{line}⟧`
* {spaced}: ⟦{random}⟧
Your {spaced} is ⟦{strong}⟧
login {user}, password ⟦{random}⟧
user: {user} / pass: ⟦{random}⟧
username={user} password=⟦{shell}⟧ ip=10.0.0.1
INFO connecting with {p.name}=⟦{shell}⟧ timeout=30
level=debug msg=ok {name}=⟦{strong}⟧ expires=3600
DEBUG {camel}: ⟦{strong}⟧
Set `{NAME}=⟦{random}⟧` and try again.
Using {spaced}: ⟦{strong}⟧
secret = ⟦{strong}⟧
{Title}: ⟦{strong}⟧
[{date} 10:00:00] {Title} "⟦{strong}⟧"
Enter passphrase: ⟦{line}⟧
Generated root password: ⟦{random}⟧
A temporary password is generated for root@localhost: ⟦{random}⟧
initialAdminPassword⏎⏎⟦{hex32}⟧⏎
credentials: {user} / ⟦{random}⟧
# more code
config.put("{p.name}", "⟦{strong}⟧");
env.put("{NAME}", "⟦{random}⟧");
settings.setProperty("{dotted}", "⟦{strong}⟧");
map.set('{camel}', '⟦{strong}⟧');
viper.SetDefault("{dotted}", "⟦{strong}⟧")
flag.String("{kebab}", "⟦{strong}⟧", "{words}")
["{name}", "⟦{strong}⟧"]
["--{p.kebab}", "⟦{shell}⟧"]
@Secret("⟦{strong}⟧") private String {camel};
{name}: Field(default="⟦{strong}⟧")
{camel}: Joi.string().default('⟦{strong}⟧'),
{name} = Column(String, default="⟦{strong}⟧")
option("--{kebab}", default: "⟦{strong}⟧")
{camel} ||= "⟦{strong}⟧"
{camel} ??= '⟦{strong}⟧';
assertThat({camel}).isEqualTo("⟦{strong}⟧");
expect({camel}).toBe("⟦{strong}⟧")
assert_equal "⟦{strong}⟧", {name}
cursor.login('{user}', '⟦{random}⟧')
smtp.login("{user}", "⟦{any}⟧")
session.auth = ("{user}", "⟦{any}⟧")
crypto.createHmac("sha256", "⟦{strong}⟧")
Jwts.builder().signWith(HS256, "⟦{strong}⟧")
jwt.encode(claims, "⟦{strong}⟧", algorithm="HS256")
(def {kebab} "⟦{any}⟧")
{Title} = "⟦{any}⟧",
public ${camel} = "⟦{any}⟧";
const {Title} = "⟦{any}⟧"
{camel}: String = "⟦{any}⟧",
"{name}" -> "⟦{any}⟧",
{name} => "⟦{any}⟧",
{"{name}" : '⟦{any}⟧'}
# more command lines
mysqladmin -u root password ⟦{shell}⟧
mysqladmin -u root -p'⟦{line}⟧' status
psexec \\srv -u {user} -p ⟦{shell}⟧ cmd
winexe -U {user}%⟦{shell}⟧ //srv cmd
wmic /node:srv /user:{user} /password:⟦{shell}⟧ os get
tool -u:{user} -p:⟦{shell}⟧
curl -u '{user}':'⟦{line}⟧' https://{host}
curl https://{host} -H 'api-key: ⟦{strong}⟧'
http {host} X-Api-Key:⟦{strong}⟧
New-Object PSCredential("{user}", "⟦{strong}⟧")
Set-Variable -Name {p.camel} -Value "⟦{any}⟧"
$credential = "⟦{any}⟧"
expect -c 'expect "assword:"; send "⟦{strong}⟧\r"'
spawn ssh {host}⏎expect "password:"⏎send "⟦{random}⟧\r"
{NAME}=⟦{shell}⟧; export {NAME}
{NAME}="⟦{any}⟧" npm run deploy
tool deploy {NAME}=⟦{shell}⟧
make deploy {NAME}=⟦{shell}⟧
helm upgrade x . --set "{p.dotted}=⟦{line}⟧"
mvn deploy -D{p.dotted}=⟦{shell}⟧
gradle publish -P{p.camel}=⟦{shell}⟧
java -D{p.dotted}=⟦{shell}⟧ -jar a.jar
rsync --port=873 {user}@{host}::m --{p.kebab}=⟦{shell}⟧
printf "⟦{line}⟧" | docker login -u {user} --password-stdin {host}
sudo -S <<< "⟦{line}⟧" true
openssl passwd -6 ⟦{shell}⟧
kinit {user} <<< "⟦{line}⟧"
# more tokens
auth=⟦gho_{alnum36}⟧
dir_⟦npm_{alnum36}⟧_v2
"auth": "⟦glpat-{url20}⟧"
key=⟦AIza{url35}⟧&q=1
document.cookie="⟦sid={strong}; path=/⟧"
Set-Cookie: ⟦PHPSESSID={hex26}; path=/⟧
cookie: ⟦token={strong}⟧
req.headers["authorization"] = "Bearer ⟦{strong}⟧"
("x-api-key", "⟦{strong}⟧")
request.setRequestHeader("X-Auth-Token", "⟦{strong}⟧")
# Prompts and values with a dollar sign
REDISCLI_AUTH=⟦{shell}⟧ redis-cli -h {host} ping
Enter passphrase for key: ⟦{random}⟧
password for {user}: ⟦{digit8}⟧
    password: ⟦{mixed8}${upper4}{mixed6}⟧
credentials: secret_key_base: ⟦{hex64}⟧
| password | ⟦{digit8}⟧ |
# written before the rules: vendors, devices, calls
user alice on >⟦{shell}⟧ ~* +@all
ACL SETUSER deploy on >⟦{shell}⟧ allkeys +@read
sentinel auth-pass mymaster ⟦{shell}⟧
lftp -e 'open bob:⟦{shell}⟧@ftp.example.org; ls; bye'
open ftp.example.org⏎user bob ⟦{shell}⟧⏎binary
USER bob⏎331 Please specify the password.⏎PASS ⟦{shell}⟧⏎230 Login successful.
printf '%s' ⟦{shell}⟧ | kubectl create secret generic db --from-file=password=/dev/stdin
podman secret create dbpass - <<< ⟦{shell}⟧
echo -n ⟦{shell}⟧ | gcloud secrets create db-password --data-file=-
az acr login -n reg -u 00000 -p ⟦{shell}⟧
heroku config:set SECRET_KEY_BASE=⟦{shell}⟧
wrangler secret put API_KEY <<< ⟦{shell}⟧
npm config set //registry.example.com/:_authToken ⟦{shell}⟧
//registry.example.com/:_authToken=⟦{shell}⟧
//npm.example.com/:_password=⟦{shell}⟧
_auth=⟦{shell}⟧
//npm.example.com/:_auth="⟦{shell}⟧"
bundle config set --global gems.example.com ci:⟦{shell}⟧
java -jar app.jar --spring.datasource.password=⟦{shell}⟧
restic -r s3:x init --password-command "echo ⟦{shell}⟧"
mc alias set play https://minio.example.com minioadmin ⟦{shell}⟧
db.auth("app", "⟦{shell}⟧")
snowsql -a acct -u bob -p ⟦{shell}⟧
ldap_default_authtok = ⟦{shell}⟧
[smtp.example.com]:587 bob@example.com:⟦{shell}⟧
swaks -au bob -ap ⟦{shell}⟧ --server mail
a1 LOGIN bob ⟦{shell}⟧
a001 LOGIN "bob@example.com" "⟦{shell}⟧"
poll mail.example.com protocol imap user bob password ⟦{shell}⟧
passwordeval "echo ⟦{shell}⟧"
PassCmd "echo ⟦{shell}⟧"
snmpwalk -v2c -c ⟦{shell}⟧ 10.0.0.1
snmpget -c ⟦{shell}⟧ 10.0.0.1 sysName.0
createUser bob SHA ⟦{shell}⟧ AES ⟦{shell}⟧
rocommunity ⟦{shell}⟧ 10.0.0.0/8
snmp-server community ⟦{shell}⟧ RO
enable secret 5 ⟦{shell}⟧
tacacs-server key ⟦{shell}⟧
radius-server host 10.0.0.1 key ⟦{shell}⟧
neighbor 10.0.0.2 password ⟦{shell}⟧
ip ospf message-digest-key 1 md5 ⟦{shell}⟧
nmcli con modify HomeNet wifi-sec.psk ⟦{shell}⟧
netsh wlan connect name=x key=⟦{shell}⟧
networksetup -setairportnetwork en0 HomeNet ⟦{shell}⟧
WIFI:T:WPA;S:HomeNet;P:⟦{shell}⟧;;
: PSK "⟦{shell}⟧"
10.0.0.1 %any : PSK "⟦{shell}⟧"
bob : EAP "⟦{shell}⟧"
echo ⟦{shell}⟧ | openconnect -u bob --passwd-on-stdin vpn.example.com
wg set wg0 peer x preshared-key <(echo ⟦{shell}⟧)
tailscale up --authkey=⟦{shell}⟧
ngrok config add-authtoken ⟦{shell}⟧
gh secret set DEPLOY_KEY -b⟦{shell}⟧
p4 -u bob -P ⟦{shell}⟧ sync
schtasks /create /tn t /tr x /ru bob /rp ⟦{shell}⟧
$cred = [System.Net.NetworkCredential]::new("bob", "⟦{shell}⟧")
Set-ADAccountPassword -Identity bob -NewPassword (ConvertTo-SecureString -AsPlainText "⟦{shell}⟧" -Force)
<key>apiToken</key><string>⟦{shell}⟧</string>
security unlock-keychain -p ⟦{shell}⟧ login.keychain
security import c.p12 -P ⟦{shell}⟧ -k login.keychain
dscl . -passwd /Users/bob ⟦{shell}⟧
echo 'root:⟦{shell}⟧' | sudo chpasswd -e
echo -e "⟦{shell}⟧\n⟦{shell}⟧" | passwd bob
echo -e "⟦{shell}⟧\n⟦{shell}⟧" | smbpasswd -a -s bob
echo ⟦{shell}⟧ | kinit bob@EX.COM
htpasswd -nb bob ⟦{shell}⟧
echo -n ⟦{shell}⟧ | cryptsetup luksFormat /dev/sda1 -
racadm -r 10.0.0.1 -u root -p ⟦{shell}⟧ getsysinfo
esxcli -s h -u root -p ⟦{shell}⟧ system version get
govc about -u 'root:⟦{shell}⟧@vcenter'
virt-install --graphics vnc,password=⟦{shell}⟧
qemu-system-x86_64 -object secret,id=s0,data=⟦{shell}⟧
vncpasswd -f <<< ⟦{shell}⟧
knife bootstrap h -x bob -P ⟦{shell}⟧
terraform login && export TF_VAR_db_password=⟦{shell}⟧
pulumi config set --secret dbPassword ⟦{shell}⟧
sonar-scanner -Dsonar.login=⟦{shell}⟧
sonar.login=⟦{shell}⟧
newrelic_license_key: ⟦{shell}⟧
drone secret add --name pw --data ⟦{shell}⟧ repo
openai api --key=⟦{shell}⟧ models.list
llm keys set openai --value ⟦{shell}⟧
{"Name": "/prod/db/password", "Type": "SecureString", "Value": "⟦{any}⟧"}
{"ParameterKey": "DBPassword", "ParameterValue": "⟦{any}⟧"}
{"SecretString": "⟦{any}⟧", "Name": "prod/db"}
<setting name="SmtpPassword" serializeAs="String"><value>⟦{shell}⟧</value></setting>
<wsse:Password Type="x#PasswordText">⟦{shell}⟧</wsse:Password>
<secret name="x">⟦{shell}⟧</secret>
<AutoLogon><Password><Value>⟦{shell}⟧</Value><PlainText>true</PlainText></Password></AutoLogon>
<keyMaterial>⟦{shell}⟧</keyMaterial>
<hudson.util.Secret>⟦{shell}⟧</hudson.util.Secret>
[distutils]⏎[internal]⏎repository: https://x⏎username: ci⏎password: ⟦{line}⟧
secret_key_base: ⟦{line}⟧
"Jwt": { "Key": "⟦{any}⟧", "Issuer": "x" }
$pdo = new PDO('mysql:host=h;dbname=d', 'bob', '⟦{any}⟧');
$mysqli = new mysqli("localhost", "bob", "⟦{any}⟧", "db");
mysqli_connect("localhost", "root", "⟦{any}⟧");
ftp_login($conn, "bob", "⟦{any}⟧");
localStorage.setItem('access_token', '⟦{any}⟧');
var apiToken string = "⟦{any}⟧"
req.SetBasicAuth("bob", "⟦{any}⟧")
req.Header.Set("X-Api-Key", "⟦{any}⟧")
var jwtKey = []byte("⟦{any}⟧")
.basic_auth("bob", Some("⟦{any}⟧"))
DriverManager.getConnection("jdbc:mysql://h/db", "bob", "⟦{any}⟧");
props.setProperty("password", "⟦{any}⟧");
keyStore.load(in, "⟦{any}⟧".toCharArray());
@Value("${db.password:⟦{shell}⟧}")
new SymmetricSecurityKey(Encoding.UTF8.GetBytes("⟦{any}⟧"))
pymysql.connect("h", "u", "⟦{any}⟧", "db")
parser.add_argument("--password", default="⟦{any}⟧")
keyring.set_password("svc", "bob", "⟦{any}⟧")
http.basic_auth 'bob', '⟦{any}⟧'
DBI->connect("dbi:mysql:db", "bob", "⟦{any}⟧");
WiFi.begin("HomeNet", "⟦{any}⟧");
<meta-data android:name="com.x.API_KEY" android:value="⟦{any}⟧"/>
proxy_set_header X-Api-Key ⟦{shell}⟧;
stats auth admin:⟦{line}⟧
user admin insecure-password ⟦{line}⟧
auth_basic_user admin:⟦{line}⟧
RequestHeader set X-Auth-Token "⟦{any}⟧"
AuthLDAPBindPassword ⟦{line}⟧
http-passwd = ⟦{line}⟧
Password for bob is now ⟦{random}⟧, please change it
login bob / ⟦{random}⟧
API key⏎⟦{random}⟧
Admin password:⏎⏎    ⟦{random}⟧
PASSWORD for the elastic user (reset with `bin/elasticsearch-reset-password`):⏎  ⟦{random}⟧
Jenkins initial setup is required. Please use the following password to proceed to installation:⏎⏎⟦{random}⟧
Unseal Key 1: ⟦{random}⟧
Ocp-Apim-Subscription-Key: ⟦{random}⟧
Sec-WebSocket-Protocol: bearer, ⟦{random}⟧
root's password changed from ⟦{random}⟧ to something else
# the same, where a plain word stays
quote PASS ⟦{strong}⟧
poetry config pypi-token.internal ⟦{strong}⟧
gem push pkg.gem --key ⟦{strong}⟧
:rubygems_api_key: ⟦{strong}⟧
rclone obscure ⟦{strong}⟧
vault login ⟦{strong}⟧
vault operator unseal ⟦{strong}⟧
default_pass = ⟦{strong}⟧
AUTH PLAIN ⟦{strong}⟧
smtp_sasl_password = ⟦{strong}⟧
enable password ⟦{strong}⟧
option key '⟦{strong}⟧'
bob * ⟦{strong}⟧ *
"bob" pptpd "⟦{strong}⟧" *
IPSec secret ⟦{strong}⟧
PresharedKey = ⟦{strong}⟧
zerotier-cli set token ⟦{strong}⟧
ngrok authtoken ⟦{strong}⟧
cloudflared service install ⟦{strong}⟧
sc config svc obj= .\bob password= ⟦{strong}⟧
codecov -t ⟦{strong}⟧
snyk auth ⟦{strong}⟧
license_key: "⟦{strong}⟧"
dd-agent config: app_key=⟦{strong}⟧
subscription-manager register --org o --activationkey ⟦{strong}⟧
pro attach ⟦{strong}⟧
mytool --key=⟦{strong}⟧ sync
mytool --license-key ⟦{strong}⟧
jwt.sign({ id: 1 }, '⟦{strong}⟧', { expiresIn: '1h' });
jwt.verify(token, "⟦{strong}⟧");
crypto.createHmac('sha256', '⟦{strong}⟧')
crypto.createCipheriv('aes-256-cbc', '⟦{strong}⟧', iv)
.bearer_auth("⟦{strong}⟧")
jwt.encode(payload, "⟦{strong}⟧", algorithm="HS256")
hmac.new(b"⟦{strong}⟧", msg, hashlib.sha256)
TOKEN = os.getenv("TOKEN", "⟦{strong}⟧")
api_key = os.environ.get('API_KEY') or '⟦{strong}⟧'
client.run("⟦{strong}⟧")  # discord bot token
env[DB_PASSWORD] = ⟦{strong}⟧
admin_password = ⟦{strong}⟧
;secret_key = ⟦{strong}⟧⏎secret_key = ⟦{strong}⟧
root:⟦{strong}⟧@tcp(127.0.0.1:3306)/shop
bob@example.com:⟦{strong}⟧
/* token ⟦{strong}⟧ */
Wi-Fi key ⟦{strong}⟧
ssh root@10.0.0.1 (pass ⟦{strong}⟧)
"""
