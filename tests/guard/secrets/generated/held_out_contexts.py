"""Contexts that are only counted: their failures are never printed, and no rule was written for them.

Written as in `secret_contexts` and `innocent_contexts`, before the rules changed last. Whoever looks at single failures
here moves all contexts to `further_contexts` and writes new ones.
"""

SECRETS = r"""
# configuration of services
datasources:⏎  - name: Loki⏎    secureJsonData:⏎      basicAuthPassword: ⟦{line}⟧
alertmanager:⏎  config:⏎    global:⏎      smtp_auth_username: '{user}'⏎      smtp_auth_password: '⟦{any}⟧'
spring.mail.password=⟦{line}⟧
app.security.jwt.secret=⟦{line}⟧
MAIL_MAILER=smtp⏎MAIL_USERNAME={user}⏎MAIL_PASSWORD=⟦{line}⟧⏎MAIL_ENCRYPTION=tls
'redis' => ['host' => '{host}', 'password' => '⟦{any}⟧', 'port' => 6379],
define( 'DB_PASSWORD', '⟦{any}⟧' );
production:⏎  adapter: postgresql⏎  username: {user}⏎  password: "⟦{any}⟧"
<add key="SmtpPassword" value="⟦{line}⟧" />
<property name="connection.password">⟦{line}⟧</property>
<Resource name="jdbc/app" username="{user}" password="⟦{line}⟧" url="jdbc:mysql://{host}/app"/>
<password>⟦{line}⟧</password>
"ConnectionStrings": { "Default": "Server={host};Database=app;User Id={user};Password=⟦{shell}⟧;Encrypt=True" }
DATABASE_URL=mysql2://{user}:⟦{strong}⟧@{host}:3306/app?pool=5
sqlalchemy.url = postgresql+psycopg://{user}:⟦{strong}⟧@{host}/app
broker_url = "amqp://{user}:⟦{strong}⟧@{host}//"
elasticsearch.password: "⟦{any}⟧"
xpack.security.encryptionKey: ⟦{strong}⟧
auth:⏎  secretKey: ⟦{strong}⟧⏎  expiresIn: 3600
[auth.github]⏎client_id = {hex20}⏎client_secret = ⟦{hex40}⟧
[remote]⏎type = webdav⏎user = {user}⏎pass = ⟦{url30}⟧
rabbitmq:⏎  default_user: {user}⏎  default_pass: ⟦{line}⟧
minio:⏎  rootUser: {user}⏎  rootPassword: ⟦{line}⟧
hosts:⏎  db1:⏎    ansible_password: ⟦{line}⟧⏎    ansible_port: 22
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="{user}" password="⟦{shell}⟧"
ssl.keystore.password=⟦{line}⟧
s3:⏎  access_key: {upper20}⏎  secret_key: ⟦{b6440}⟧
TELEGRAM_BOT_TOKEN=⟦{digit9}:AA{url33}⟧
DISCORD_TOKEN: "⟦{strong}⟧"
SENTRY_AUTH_TOKEN=⟦{hex64}⟧
# shells and programs
export AWS_SESSION_TOKEN="⟦{strong}⟧" && aws s3 ls
PGPASSWORD=⟦{shell}⟧ pg_dump -h {host} -U {user} app > dump.sql
docker run -d -e MYSQL_ROOT_PASSWORD=⟦{shell}⟧ -p 3306:3306 mysql:8
docker build --build-arg NPM_TOKEN=⟦{strong}⟧ -t app .
kubectl create secret generic db --from-literal=password=⟦{shell}⟧ --namespace prod
helm upgrade app ./chart --set postgresql.auth.postgresPassword=⟦{shell}⟧
mysql -h {host} -u{user} -p⟦{strong}⟧ app < dump.sql
mongosh "mongodb+srv://{user}:⟦{strong}⟧@{host}/app"
curl -H "X-Auth-Token: ⟦{strong}⟧" https://{host}/v1/items
curl -H 'PRIVATE-TOKEN: ⟦{strong}⟧' https://{host}/api/v4/projects
curl --user '{user}:⟦{strong}⟧' https://{host}/
curl -X POST https://{host}/login -d '{"username":"{user}","password":"⟦{line}⟧"}'
curl -d 'grant_type=client_credentials&client_id=app&client_secret=⟦{strong}⟧' https://{host}/token
http POST {host}/login username={user} password=⟦{shell}⟧
wget --header="Authorization: Bearer ⟦{strong}⟧" https://{host}/{file}
git clone https://oauth2:⟦{strong}⟧@{host}/team/app.git
openssl enc -aes-256-cbc -in {file} -out out.enc -pass pass:⟦{shell}⟧
openssl pkcs12 -in cert.p12 -nodes -passin pass:⟦{shell}⟧
ansible-playbook site.yml -e "ansible_become_password=⟦{shell}⟧"
vault kv put secret/app password=⟦{shell}⟧
vault login ⟦hvs.{alnum28}⟧
az login --service-principal -u app -p ⟦{strong}⟧ --tenant example
sshpass -p '⟦{line}⟧' scp {file} {user}@{host}:/tmp
echo "⟦{strong}⟧" | docker login {host} -u {user} --password-stdin
mosquitto_pub -h {host} -u {user} -P ⟦{shell}⟧ -t topic -m hi
htpasswd -b -c .htpasswd {user} ⟦{shell}⟧
net user {user} ⟦{strong}⟧ /add
smbclient //{host}/share -U {user}%⟦{strong}⟧
$env:API_TOKEN = "⟦{strong}⟧"
$cred = ConvertTo-SecureString "⟦{strong}⟧" -AsPlainText -Force
restic -r s3:{host}/backup --password-command "echo ⟦{strong}⟧" snapshots
borg init --encryption=repokey # BORG_PASSPHRASE='⟦{any}⟧'
# code
client = OpenAI(api_key="⟦sk-{alnum48}⟧")
stripe.api_key = "⟦sk_live_{alnum24}⟧"
SECRET_KEY = '⟦django-insecure-{strong}⟧'
conn = psycopg.connect("host={host} user={user} password=⟦{shell}⟧ dbname=app")
const client = new Client({ user: '{user}', password: '⟦{any}⟧', port: 5432 })
const token = jwt.sign(payload, '⟦{strong}⟧', { expiresIn: '1h' });
app.use(session({ secret: '⟦{any}⟧', resave: false }))
firebase.initializeApp({ apiKey: "⟦AIza{url35}⟧", projectId: "{slug}" })
String password = "⟦{any}⟧"; // TODO move to vault
var cfg = Config{Host: "{host}", Password: "⟦{any}⟧"}
let api_token = "⟦{any}⟧".to_string();
services.AddAuth(o => { o.ClientSecret = "⟦{strong}⟧"; });
r.Header.Set("Authorization", "Bearer ⟦{strong}⟧")
req.headers["X-Api-Key"] = "⟦{strong}⟧"
http.setRequestHeader('Authorization', 'Basic ⟦{userpass}⟧');
assert response.json() == {"access_token": "⟦{strong}⟧", "token_type": "bearer"}
provider "postgresql" { host = "{host}" password = "⟦{any}⟧" }
resource "random" "x" {⏎  master_password = "⟦{any}⟧"⏎}
@Bean DataSource ds() { return create("{user}").password("⟦{strong}⟧").build(); }
ALTER USER {user} WITH PASSWORD '⟦{line}⟧';
CREATE USER '{user}'@'%' IDENTIFIED BY '⟦{line}⟧';
INSERT INTO settings (name, value) VALUES ('smtp_password', '⟦{strong}⟧');
# logs, protocols, notes
{date} DEBUG login attempt user={user} password=⟦{shell}⟧ ip=10.0.0.7
{date} 10:11:12 INFO  refresh_token: ⟦{strong}⟧
[debug] request headers: {"authorization":"Bearer ⟦{jwt}⟧","accept":"*/*"}
< set-cookie: ⟦session={strong}; Path=/; HttpOnly⟧
GET /v2/items?page=2&api_key=⟦{strong}⟧ HTTP/1.1
POST https://{host}/hook?token=⟦{strong}⟧ 200
https://{host}/download?X-Amz-Credential=abc&X-Amz-Signature=⟦{hex64}⟧
https://storage.{host}/x?sv=2022-11-02&sig=⟦{strong}%3D⟧
Your new password is ⟦{strong}⟧. Please change it after the first login.
Hi, the staging admin password: ⟦{random}⟧
login: {user}, password: ⟦{random}⟧
The API key for the sandbox is ⟦{strong}⟧
- **Password:** `⟦{random}⟧`
| user | password |⏎|---|---|⏎| {user} | ⟦{random}⟧ |
user,password⏎{user},⟦{random}⟧
Enter passphrase: ⟦{random}⟧
Password for {user}: ⟦{random}⟧
New root password: ⟦{random}⟧
export GITHUB_TOKEN=⟦github_pat_{alnum22}_{alnum59}⟧ # expires in May
-H "Ocp-Apim-Subscription-Key: ⟦{hex32}⟧"
"x-goog-api-key": "⟦{strong}⟧"
slack_webhook = "https://hooks.slack.com/services/⟦T{upper8}/B{upper8}/{alnum24}⟧"
# programs with a place of their own
ldapsearch -x -H ldap://{host} -D cn=admin,dc=example -w ⟦{shell}⟧ -b dc=example
wpa_passphrase HomeNet ⟦{shell}⟧
ipmitool -I lanplus -H {host} -U ADMIN -P ⟦{shell}⟧ power status
mount -t cifs //{host}/share /mnt -o username={user},password=⟦{shell}⟧,uid=1000
xfreerdp /v:{host} /u:{user} /p:⟦{strong}⟧ /cert:ignore
plink -ssh {user}@{host} -pw ⟦{strong}⟧ uptime
gpg --batch --yes --passphrase ⟦{shell}⟧ -c {file}
zip -P ⟦{shell}⟧ -r out.zip {word}
7z x backup.7z -p⟦{strong}⟧ -oout
qpdf --password=⟦{shell}⟧ --decrypt in.pdf out.pdf
pdftk in.pdf output out.pdf user_pw ⟦{strong}⟧
sudo -S <<< "⟦{strong}⟧" apt update
echo '{user}:⟦{strong}⟧' | sudo chpasswd
heroku config:set STRIPE_SECRET=⟦{strong}⟧ --app {slug}
fly secrets set SESSION_SECRET=⟦{strong}⟧
gcloud sql users set-password root --host=% --instance={slug} --password=⟦{shell}⟧
sqlcmd -S {host} -U sa -P '⟦{line}⟧' -Q "select 1"
influx -host {host} -username {user} -password ⟦{shell}⟧
rabbitmqctl add_user {user} ⟦{strong}⟧
rabbitmqctl change_password {user} ⟦{strong}⟧
mc alias set local http://{host}:9000 {upper20} ⟦{alnum40}⟧
s3cmd --access_key={upper20} --secret_key=⟦{alnum40}⟧ ls
etcdctl --user root:⟦{strong}⟧ get / --prefix
consul members -token=⟦{uuid}⟧
nomad job run -token ⟦{uuid}⟧ {file}
terraform apply -var="db_password=⟦{shell}⟧"
pulumi config set --secret dbPassword ⟦{strong}⟧
tailscale up --authkey ⟦tskey-auth-{alnum12}-{alnum32}⟧
sentry-cli --auth-token ⟦{hex64}⟧ releases list
doctl auth init -t ⟦{hex64}⟧
poetry config http-basic.private {user} ⟦{strong}⟧
dotnet nuget add source https://{host}/v3/index.json -u {user} -p ⟦{strong}⟧
nuget setApiKey ⟦{strong}⟧ -Source https://{host}
composer config http-basic.{host} {user} ⟦{strong}⟧
bundle config {host} {user}:⟦{strong}⟧
mvn sonar:sonar -Dsonar.token=⟦{hex40}⟧
java -Djavax.net.ssl.trustStorePassword=⟦{shell}⟧ -jar app.jar
jarsigner -storepass ⟦{shell}⟧ -keypass ⟦{shell}⟧ app.jar alias
apksigner sign --ks release.jks --ks-pass pass:⟦{shell}⟧ app.apk
security add-generic-password -a {user} -s {word} -w ⟦{strong}⟧
hydra -l {user} -p ⟦{strong}⟧ ssh://{host}
evil-winrm -i {host} -u {user} -p ⟦{strong}⟧
psexec.py corp/{user}:⟦{strong}⟧@{host}
curl --proxy-user {user}:⟦{strong}⟧ -x {host}:3128 https://{host}
swaks --to {user}@{host} --auth-user {user} --auth-password ⟦{strong}⟧
radtest {user} ⟦{strong}⟧ {host} 0 ⟦{strong}⟧
/msg NickServ IDENTIFY ⟦{strong}⟧
username {user} privilege 15 secret 0 ⟦{strong}⟧
network={⏎  ssid="home"⏎  psk="⟦{any}⟧"⏎}
set imap_pass="⟦{any}⟧"
[1001]⏎type=friend⏎secret=⟦{line}⟧⏎host=dynamic
user {user} insecure-password ⟦{shell}⟧
otpauth://totp/Acme:{user}?secret=⟦{upper32}⟧&issuer=Acme
0 3 * * * {user} PGPASSWORD=⟦{shell}⟧ pg_dump app
ENV API_TOKEN ⟦{strong}⟧
DEPLOY_TOKEN := ⟦{strong}⟧
oauth_token: ⟦gho_{alnum36}⟧
users:⏎- name: admin⏎  user:⏎    token: ⟦{jwt}⟧
ldap_bind($conn, "cn=admin", "⟦{strong}⟧");
smtp.PlainAuth("", "{user}", "⟦{strong}⟧", "{host}")
req.SetBasicAuth("{user}", "⟦{strong}⟧")
http_basic_authenticate_with name: "{user}", password: "⟦{any}⟧"
auth: { user: '{user}@{host}', pass: '⟦{any}⟧' }
DRIVER={ODBC Driver 18};SERVER={host};UID={user};PWD=⟦{shell}⟧
ssh.connect("{host}", 22, "{user}", "⟦{strong}⟧")

# program configuration of many syntaxes
(setq smtpmail-smtp-password "⟦{any}⟧")
{:api-key "⟦{any}⟧", :region "eu"}
System.put_env("{NAME}", "⟦{any}⟧")
{application, [{db_password, "⟦{any}⟧"}, {port, 5432}]}.
let {camel}: &str = "⟦{any}⟧";
client.set_{name}("⟦{any}⟧");
val {camel}: String by lazy { "⟦{any}⟧" }
our %cfg = ( {name} => '⟦{any}⟧', host => '{host}' );
$config["{name}"] = "⟦{any}⟧";
os.environ.setdefault("{NAME}", "⟦{any}⟧")
monkeypatch.setenv("{NAME}", "⟦{any}⟧")
viper.SetDefault("{dotted}", "⟦{any}⟧")
{camel} = os.getenv("{NAME}", "⟦{any}⟧")
System.getProperty("{dotted}", "⟦{any}⟧")
{camel} ?? "⟦{any}⟧"
if ({camel} === "⟦{any}⟧") {
if [ "${NAME}" = "⟦{any}⟧" ]; then
assert {name} == "⟦{any}⟧"
Dim {camel} As String = "⟦{any}⟧"
{camel} := '⟦{any}⟧';
options(api_key = "⟦{any}⟧")
setenv {NAME} ⟦{strong}⟧
[Environment]::SetEnvironmentVariable("{NAME}", "⟦{any}⟧", "User")
$pw = ConvertTo-SecureString "⟦{any}⟧" -AsPlainText -Force
setx {NAME} "⟦{any}⟧"
let-env {NAME} = "⟦{any}⟧"
UPDATE users SET password = '⟦{any}⟧' WHERE name = '{user}';
ALTER ROLE {user} PASSWORD '⟦{any}⟧'
SET PASSWORD FOR '{user}'@'%' = PASSWORD('⟦{any}⟧');
# infrastructure
  {name} = "⟦{any}⟧" # terraform.tfvars
az login --service-principal -u {uuid} -p ⟦{shell}⟧ --tenant {uuid}
vercel env add {NAME} production <<< "⟦{any}⟧"
consul kv put app/{name} ⟦{strong}⟧
redis-cli CONFIG SET requirepass "⟦{any}⟧"
PGPASSWORD=⟦{shell}⟧ psql -h {host} -U {user} app
mongosh "mongodb://{user}:⟦{strong}⟧@{host}:27017/app"
echo '⟦{any}⟧' | sudo -S systemctl restart app
zip -P ⟦{shell}⟧ a.zip {file}
rclone config create remote sftp host {host} user {user} pass ⟦{strong}⟧
restic -r {path} --password-command "echo ⟦{strong}⟧" backup
pip install --index-url https://{user}:⟦{strong}⟧@{host}/simple pkg
twine upload -u __token__ -p ⟦{strong}⟧ dist/*
gh auth login --with-token <<< ⟦{strong}⟧
git clone https://oauth2:⟦{strong}⟧@{host}/a/b.git
curl -H 'PRIVATE-TOKEN: ⟦{url20}⟧' https://{host}/api/v4/projects
curl "https://{host}/v1/items?api_key=⟦{strong}⟧&page=2"
GET /callback?access_token=⟦{strong}⟧&state={hex16} HTTP/1.1
headers = {"Authorization": "Token ⟦{hex40}⟧"}
.header("{kebab}", "⟦{any}⟧")
smtp.login("{user}@{host}", "⟦{any}⟧")
conn = psycopg2.connect(host="{host}", user="{user}", password="⟦{any}⟧")
redis.Redis(host="{host}", password="⟦{any}⟧")
Client.new({name}: "⟦{any}⟧")
boto3.client("s3", aws_access_key_id="⟦AKIA{upper16}⟧", aws_secret_access_key="⟦{b6440}⟧")
jwt.encode(payload, "⟦{any}⟧", algorithm="HS256")
stripe.api_key = "⟦{strong}⟧"
openai.api_key = '⟦sk-{alnum48}⟧'
Telegram bot: ⟦{digit9}:AA{url33}⟧
# files
<server><id>central</id><username>{user}</username><password>⟦{line}⟧</password></server>
<key>{camel}</key>⏎<string>⟦{line}⟧</string>
<input type="password" name="pw" value="⟦{line}⟧">
<meta name="{kebab}" content="⟦{strong}⟧">
<bean class="Db"><property name="password" value="⟦{line}⟧"/></bean>
- key: {NAME}⏎  value: "⟦{any}⟧"
"{camel}": ["⟦{any}⟧", "⟦{any}⟧"]
enable secret 0 ⟦{shell}⟧
username {user} privilege 15 password 0 ⟦{shell}⟧
{host} ansible_user={user} ansible_ssh_pass=⟦{shell}⟧
bindpw ⟦{shell}⟧
user={user}%⟦{shell}⟧
username={user}⏎password=⟦{shell}⟧⏎domain=WORK
echo "{user}:⟦{strong}⟧" | chpasswd
# words, logs, tables
The {spaced} is `⟦{any}⟧`
use {spaced} ⟦{strong}⟧ to log in
We changed the {spaced} from ⟦{strong}⟧ to ⟦{strong}⟧.
Your new {spaced}: ⟦{any}⟧
{spaced} -> ⟦{strong}⟧
{spaced} → ⟦{strong}⟧
- **{spaced}:** ⟦{line}⟧
* {spaced} — `⟦{strong}⟧`
credentials: {user} / ⟦{strong}⟧
user {user} pass ⟦{strong}⟧
{spaced} (prod): ⟦{line}⟧
Enter {p.spaced}: ⟦{strong}⟧
密码: ⟦{strong}⟧
time="{date}" level=info msg=login user={user} token=⟦{strong}⟧
DEBUG Request{headers={x-api-key=[⟦{strong}⟧], accept=[*/*]}}
User(name={user}, {p.camel}=⟦{shell}⟧, id={num})
Config { {name}: "⟦{any}⟧", port: 80 }
| {spaced} | `⟦{any}⟧` |
| {NAME} | ⟦{strong}⟧ | {words} |
user,password⏎{user},⟦{shell}⟧
 name  | password⏎-------+---------⏎ {user}  | ⟦{strong}⟧
{NAME}        ⟦{strong}⟧
Error: invalid {spaced} "⟦{strong}⟧"
AccountName=app;AccountKey=⟦{b6486}==⟧;EndpointSuffix=core.windows.net
Server={host};Uid={user};Pwd=⟦{shell}⟧;
SG key ⟦SG.{url22}.{url43}⟧
export GITHUB_TOKEN=⟦ghp_{alnum36}⟧ # mine
WEBHOOK_URL=https://{host}/hook?token=⟦{strong}⟧
npx tool --{kebab} ⟦{strong}⟧ --verbose
tool --{p.kebab}='⟦{any}⟧' run
./deploy.sh --{p.kebab} "⟦{any}⟧"
tool /{p.Title}:⟦{shell}⟧ /user:{user}
args: ["--{p.kebab}", "⟦{any}⟧", "--host", "{host}"]
subprocess.run(["tool", "--{p.kebab}", "⟦{any}⟧"])
"text": "the {spaced} is ⟦{strong}⟧ ok"
"env": {"{NAME}": "⟦{any}⟧"}
<Client {camel}={"⟦{any}⟧"} />
{name} ||= "⟦{any}⟧"
{name} += "⟦{any}⟧"
ARG {NAME}=⟦{line}⟧
ENV {NAME} ⟦{line}⟧
::add-mask::⟦{strong}⟧
::set-output name={name}::⟦{strong}⟧
{name}=⟦{strong}⟧ >> $GITHUB_OUTPUT
sed -i 's/{NAME}=.*/{NAME}=⟦{strong}⟧/' .env
printf '%s' '⟦{strong}⟧' > {name}.txt
-----BEGIN OPENSSH PRIVATE KEY-----⏎⟦{b6464}⏎{b6464}⟧⏎-----END OPENSSH PRIVATE KEY-----
"""

INNOCENT = r"""
# code about secrets
if not verify_password({ident}, {ident}):
password = getpass.getpass("Password for {user}: ")
password_field.send_keys(settings.{ident})
token = request.headers.get("Authorization", "").removeprefix("Bearer ")
const {camel} = useSelector((state) => state.{ident}.{ident});
const { {camel} } = await {ident}.{ident}();
func (s *{Type}) {Title}(ctx context.Context) (string, error) {
return new TokenResponse(accessToken, refreshToken, expiresIn);
self._{name} = {name}
{name} = models.CharField(max_length={small})
{Title}: faker.internet.password(),
export type {Title} = { {camel}: string; {ident}: number };
passwordInput.setError(getString(R.string.{ident}))
<input type="password" name="{name}" placeholder="Enter password" required>
tokens = tokenizer.encode({ident}, max_length={small})
"usage": {"prompt_tokens": {num}, "completion_tokens": {num}, "total_tokens": {num}}
for token in lexer.tokens[{small}:]:
TOKEN_EXPIRY_SECONDS = {num}
secretKeyRef:⏎  name: {slug}⏎  key: {word}
valueFrom:⏎  secretKeyRef: { name: {slug}, key: password }
export {NAME}="$(op read op://{word}/{word}/password)"
{name} = data.vault_generic_secret.{ident}.data["{name}"]
{p.name}: "{{ lookup('env', '{NAME}') }}"
process.env.{NAME}
System.getenv("{NAME}")
password: <your {word} password>
api_key = "YOUR_API_KEY"
# prose
The {spaced} is stored in the {word} manager, ask {user} for access.
Reset your password by clicking the link in the email.
Added a test for the expired {spaced} in {file}.
error: invalid {spaced} for user {user}
warning: {camel} is deprecated, use {ident} instead
fix(auth): rotate the {spaced} every {small} days (#{num})
- [ ] Remove the {spaced} from {path}/{file}
| {name} | string | the {spaced} of the {word} | required |
Usage: app login --{kebab} <{spaced}> [--{word} {word}]
# ids, hashes, encodings
"resolved": "https://registry.example.com/{word}/-/{word}-{ver}.tgz"
trace_id={hex32} span_id={hex16} status=200
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{b6443} {user}@{word}
    at {ident} ({path}/{file}:{small}:{small})
image: registry.example.com/{slug}@sha256:{hex64}
-rw-r--r-- 1 {user} {user} {num} Jan {small} 10:11 {file}
arn:aws:secretsmanager:eu-west-1:{digit12}:secret:{slug}-{alnum6}
"public_key": "{b6444}"
key: {word}-${{ hashFiles('{file}') }}
https://{host}/{word}/{uuid}?page={small}&sort={word}
curl -u "$USER:$TOKEN" https://{host}/
git clone https://{host}/{word}/{word}.git
Cookie: session=<session id>; theme=<theme>
Authorization: Bearer <access token>
docker run -p {small}:{small} -e {NAME} {slug}:{ver}

# code
let {camel} = await get{Title}();
def check_{name}(self, {name}: str) -> bool:
if not {name}: raise ValueError("{spaced} missing")
if ({camel} == null) return;
{name} is None or {name} == ""
return {"{name}": {name}}
<input type="password" name="{name}" placeholder="{words}">
import { {Title} } from "./{kebab}";
class {Title}(Base):
struct {Title} { {camel}: String }
SELECT {name} FROM users WHERE id = {num};
token = tokens[{ident}]
token = lexer.next_token()
const {NAME}_HEADER = "x-{kebab}";
{NAME}_FILE: /run/secrets/{name}
{name}_ttl: {small}h
{name}_expires_at: {date}
{NAME}=<your-{kebab}>
{name}: "********"
tool --{kebab} "${NAME}" run
tool --{kebab}-file {path}
mysql -u {user} -p app
git checkout {hex40}
image: {host}/app@sha256:{hex64}
traceparent: 00-{hex32}-{hex16}-01
session {uuid} started
"id":"toolu_{alnum24}","type":"tool_use"
"id":"msg_{alnum24}"
"requestId":"req_{alnum24}"
build-{hex8}.js
{path}/{hex32}.cache
md5sum: {hex32}  {file}
digest: {hex64}
revision: {hex40}
cache_key: {hex32}
primary_key: id
key: {slug}
keys: [{ident}, {ident}]
public_key: {b6444}
ssh_key_name: {slug}
kid: {hex20}
# words
The {spaced} is wrong.
The {spaced} must be at least {small} characters long
{spaced} is missing
forgot your {spaced}?
We rotated the {spaced} on {date}.
The {spaced} was moved to {path}
Set the {spaced} to a random value.
Set {NAME} before you run this
{spaced}: see {path}
{spaced}: {words}
{spaced} (optional): {words}
| `{NAME}` | {words} |
| {NAME} | required | {words} |
* {spaced} - {words}
`{NAME}` is read by `{ident}`
Fix {spaced} handling in {file} (#{num})
{file}:{num}: {name} is not defined
TypeError: {camel} is undefined
FAILED tests/test_{name}.py::test_{name}_is_checked - AssertionError
test_{name}_{ident} PASSED
drwxr-xr-x 2 {user} {user} 4096 Mar  1 10:00 {kebab}
https://{host}/{kebab}?page={small}
{host}:{num}:{word}
git@github.com:{word}/{slug}.git
postgres://${USER}:${PASSWORD}@{host}/app
"input_tokens":{num},"output_tokens":{num}
used {num} tokens of {num}
tokenizer: {slug}
eos_token: </s>
password = getpass.getpass()
passwordStrength: "{word}"
arn:aws:secretsmanager:eu-west-1:123456789012:secret:{slug}
uses: actions/checkout@{hex40}
permissions:⏎  id-token: write
Cookie: $COOKIE
cookies: true
cookie_policy: {word}
auth: {slug}
auth_type: basic
pass {word}
passed {small} of {small}
pass: {ident}
bypass: {word}
"""
