# ruff: noqa: E501
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
# dotenv of other stacks
APP_NAME=Laravel⏎APP_ENV=local⏎APP_KEY=base64:⟦{b6444}⟧⏎APP_DEBUG=true
DB_CONNECTION=mysql⏎DB_DATABASE={word}⏎DB_USERNAME={user}⏎DB_PASSWORD="⟦{any}⟧"
MAIL_MAILER=smtp⏎MAIL_USERNAME={user}⏎MAIL_PASSWORD=⟦{line}⟧⏎MAIL_ENCRYPTION=tls
REDIS_URL=redis://:⟦{alnum24}⟧@{host}:6379/0
MONGODB_URI=mongodb+srv://{user}:⟦{alnum16}⟧@cluster0.{lower5}.mongodb.net/{word}?retryWrites=true
SENDGRID_API_KEY=⟦SG.{alnum22}.{alnum43}⟧
TWILIO_AUTH_TOKEN=⟦{hex32}⟧
MYSQL_ROOT_PASSWORD=⟦{line}⟧⏎MYSQL_DATABASE={word}
SENTRY_AUTH_TOKEN=⟦{hex64}⟧⏎SENTRY_ORG={slug}
DD_API_KEY=⟦{hex32}⟧⏎DD_SITE=datadoghq.eu
RABBITMQ_DEFAULT_USER={user}⏎RABBITMQ_DEFAULT_PASS=⟦{line}⟧
SUPABASE_URL=https://{lower20}.supabase.co⏎SUPABASE_SERVICE_ROLE_KEY=⟦{jwt}⟧
GITLAB_TOKEN=⟦glpat-{alnum20}⟧
HF_TOKEN=⟦hf_{alnum34}⟧
GOOGLE_CLIENT_ID={num}.apps.googleusercontent.com⏎GOOGLE_CLIENT_SECRET=⟦GOCSPX-{alnum28}⟧
SECRET_KEY_BASE=⟦{hex128}⟧
VITE_PORT=5173⏎{NAME} = ⟦{line}⟧
set {NAME}=⟦{shell}⟧
$env:{NAME} = "⟦{strong}⟧"
ENV {NAME}=⟦{shell}⟧
ARG {NAME}="⟦{strong}⟧"
# json and jsonc
"ConnectionStrings": {⏎  "Default": "Server={host};Database={word};User Id={user};Password=⟦{alnum16}⟧;TrustServerCertificate=True"⏎}
"Jwt": { "Issuer": "{host}", "Key": "⟦{strong}⟧", "ExpireMinutes": 60 }
{"mcpServers":{"{word}":{"command":"npx","args":["-y","{slug}"],"env":{"{NAME}":"⟦{strong}⟧"}}}}
"env": {⏎  "{NAME}": "⟦{any}⟧"⏎},
{"id_token":"⟦{jwt}⟧","refresh_token":"⟦{url6448}⟧","scope":"openid profile"}
{"tool":"Read","output":"     1\t{NAME}=⟦{strong}⟧\n     2\tHOST={host}\n"}
{"command":"export {NAME}=⟦{strong}⟧ && make deploy","description":"Deploy"}
{"type":"service_account","private_key_id":"{hex40}","private_key":"-----BEGIN PRIVATE KEY-----\n⟦{b6464}⟧\n⟦{b6464}⟧\n-----END PRIVATE KEY-----\n"}
"github-oauth": { "github.com": "⟦ghp_{alnum36}⟧" }
[{"key":"{NAME}","value":"⟦{strong}⟧","masked":false}]
{⏎  "appId": "{uuid}",⏎  "displayName": "{slug}",⏎  "password": "⟦{strong}⟧",⏎  "tenant": "{uuid}"⏎}
{'{name}': '⟦{any}⟧', 'timeout': {small}}
# yaml
production:⏎  adapter: mysql2⏎  username: {user}⏎  password: "⟦{any}⟧"⏎  socket: /tmp/mysql.sock
auth:⏎  {kebab}: ⟦{line}⟧
variables:⏎  {NAME}: "⟦{strong}⟧"⏎  DOCKER_DRIVER: overlay2
        ansible_user: {user}⏎        ansible_become_pass: ⟦{line}⟧
    vars:⏎      mysql_root_password: "⟦{any}⟧"⏎      mysql_port: 3306
postgresql:⏎  auth:⏎    username: {user}⏎    postgresPassword: "⟦{any}⟧"⏎    existingSecret: ""
grafana:⏎  adminUser: admin⏎  adminPassword: ⟦{line}⟧
      MONGO_INITDB_ROOT_USERNAME: {user}⏎      MONGO_INITDB_ROOT_PASSWORD: ⟦{line}⟧
      MINIO_ROOT_PASSWORD: '⟦{any}⟧'
users:⏎- name: {user}⏎  user:⏎    token: ⟦{jwt}⟧
receivers:⏎  - name: mail⏎    email_configs:⏎      - auth_username: {user}⏎        auth_password: '⟦{any}⟧'
quarkus.datasource.username={user}⏎quarkus.datasource.password=⟦{line}⟧
[pypi]⏎username = __token__⏎password = ⟦pypi-{url64160}⟧
{name} = '⟦{any}⟧'  # rotate quarterly
storePassword=⟦{line}⟧⏎keyAlias=upload⏎storeFile=../upload.jks
# clis
mysql -h {host} -u {user} -p⟦{pw}⟧ {word} < schema.sql
mysqldump --user={user} --password=⟦{shell}⟧ --single-transaction {word} | gzip > {word}.sql.gz
redis-cli -h {host} -a ⟦{shell}⟧ ping
mongosh "mongodb://{user}:⟦{alnum16}⟧@{host}:27017/admin"
az login --service-principal -u {uuid} -p ⟦{shell}⟧ --tenant {uuid}
helm upgrade --install {slug} ./chart --set auth.password=⟦{shell}⟧ -n {word}
kubectl create secret generic {slug} --from-literal={kebab}=⟦{shell}⟧
kubectl -n {word} set env deploy/{slug} {NAME}=⟦{shell}⟧
twine upload -u __token__ -p ⟦pypi-{url64120}⟧ dist/*
wget --user={user} --password=⟦{shell}⟧ https://{host}/{file}
http POST https://{host}/auth username={user} password=⟦{shell}⟧
http GET https://{host}/items "Authorization: Bearer ⟦{strong}⟧"
curl --user '{user}:⟦{strong}⟧' -T {file} https://{host}/repository/raw/
curl -X POST "https://{host}/oauth/token" -d grant_type=client_credentials -d client_id={word} -d client_secret=⟦{strong}⟧
curl --header "PRIVATE-TOKEN: ⟦glpat-{alnum20}⟧" "https://gitlab.com/api/v4/projects"
curl -X POST -H 'Content-type: application/json' --data '{"text":"hi"}' https://hooks.slack.com/services/⟦T{upper8}/B{upper10}/{alnum24}⟧
pip install {slug} --index-url https://{user}:⟦{strong}⟧@{host}/simple
vercel deploy --prod --token ⟦{alnum24}⟧
fly secrets set {NAME}=⟦{shell}⟧
heroku config:set {NAME}=⟦{shell}⟧ -a {slug}
echo "⟦{strong}⟧" | npx wrangler secret put {NAME}
vault kv put secret/{word} {name}=⟦{shell}⟧
export VAULT_TOKEN=⟦hvs.{alnum24}⟧ VAULT_ADDR=https://{host}:8200
terraform apply -var="{name}=⟦{strong}⟧" -auto-approve
bundle config set --global gems.{word}.com {user}:⟦{strong}⟧
composer config http-basic.{host} {user} ⟦{strong}⟧
dotnet user-secrets set "{Title}" "⟦{strong}⟧"
dotnet nuget push {file} --api-key ⟦oy2{lower43}⟧ --source https://api.nuget.org/v3/index.json
echo '{user}:⟦{pw}⟧' | sudo chpasswd
# source in other languages
public static final String {NAME} = "⟦{strong}⟧";
private const string {camel} = "⟦{any}⟧";
val {camel} = "⟦{any}⟧"
let {camel} = "⟦{strong}⟧"
static let {camel}: String = "⟦{strong}⟧"
const {NAME}: &str = "⟦{strong}⟧";
define('DB_PASSWORD', '⟦{any}⟧');
define('AUTH_KEY',         '⟦{strong}⟧');
'{name}' => '⟦{any}⟧',
{name}: "⟦{any}⟧",
config.{name} = '⟦{any}⟧'
Stripe.api_key = '⟦sk_test_{alnum24}⟧'
$pdo = new PDO('mysql:host={host};dbname={word}', '{user}', '⟦{strong}⟧'); // username, password
mysqli_connect("{host}", "{user}", "⟦{strong}⟧", "{word}") or die("wrong password?");
services.AddDbContext<{Type}>(o => o.UseSqlServer("Server={host};Database={word};User Id={user};Password=⟦{strong}⟧;"));
dsn := "{user}:⟦{alnum16}⟧@tcp({host}:3306)/{word}?parseTime=true"
req.Header.Set("Authorization", "Bearer ⟦{strong}⟧")
const redis = new Redis({ host: "{host}", port: 6379, password: "⟦{any}⟧" });
mongoose.connect('mongodb://{user}:⟦{alnum16}⟧@{host}:27017/{word}')
.setPassword("⟦{strong}⟧")
    .withCredentials("{user}", "⟦{strong}⟧") // login and password
boto3.client("s3", region_name="us-west-2", aws_secret_access_key="⟦{b6440}⟧")
pymysql.connect(host='{host}', user='{user}', passwd='⟦{any}⟧', db='{word}')
# sql
CREATE USER '{user}'@'%' IDENTIFIED BY '⟦{any}⟧';
GRANT ALL PRIVILEGES ON {word}.* TO '{user}'@'localhost' IDENTIFIED BY '⟦{strong}⟧' WITH GRANT OPTION;
INSERT INTO settings (name, value) VALUES ('{name}', '⟦{strong}⟧');
CREATE LOGIN {user} WITH PASSWORD = N'⟦{strong}⟧';
# logs and http
Cookie: PHPSESSID=⟦{lower26}⟧; theme=dark
POST /oauth/token HTTP/1.1⏎Content-Type: application/x-www-form-urlencoded⏎⏎grant_type=password&username={user}&password=⟦{strong}⟧
{host} - - [{date}] "GET /callback?access_token=⟦{strong}⟧ HTTP/1.1" 302 0
java.lang.IllegalStateException: cannot parse url 'amqp://{user}:⟦{strong}⟧@{host}:5672/{word}'
DEBUG:urllib3.connectionpool:send: b'GET / HTTP/1.1\r\nAuthorization: Bearer ⟦{strong}⟧\r\n'
{date} 12:00:03.221 [main] DEBUG c.z.hikari.HikariConfig - password⇥⟦{strong}⟧
# chats, tables
Sure, our staging {p.spaced} is: ⟦{strong}⟧
Please use {spaced} = ⟦{strong}⟧ for the sandbox account
"GITHUB_TOKEN" should be set to ⟦github_pat_{alnum22}_{alnum59}⟧
admin panel: https://{host}/admin⏎user: {user}⏎{p.spaced}: ⟦{line}⟧
The initial admin password has been generated: ⟦{alnum20}⟧
-define('DB_PASSWORD', '⟦{strong}⟧');⏎+define('DB_PASSWORD', getenv('DB_PASSWORD'));
@@ -4,6 +4,7 @@⏎ production:⏎   host: {host}⏎+  {name}: ⟦{strong}⟧
the deploy key for gitlab, valid until {date}: ⟦gldt-{alnum20}⟧
SecretKey         : ⟦{strong}⟧⏎KeyName           : primary⏎ResourceGroupName : {slug}
DefaultEndpointsProtocol=https;AccountName={word};AccountKey=⟦{b6488}⟧;EndpointSuffix=core.windows.net
# build tools, package managers, publishing
<server>⏎  <id>{word}</id>⏎  <username>{user}</username>⏎  <password>⟦{strong}⟧</password>⏎</server>
signing.keyId={hex8}⏎signing.password=⟦{line}⟧
mavenCentralUsername={user}⏎mavenCentralPassword=⟦{line}⟧
<packageSourceCredentials><{word}><add key="Username" value="{user}" /><add key="ClearTextPassword" value="⟦{strong}⟧" /></{word}></packageSourceCredentials>
[registry]⏎token = "⟦cio{alnum32}⟧"
[auth]⏎{word}.prefix = https://{host}⏎{word}.username = {user}⏎{word}.password = ⟦{line}⟧
:rubygems_api_key: ⟦rubygems_{hex48}⟧
npmAuthToken: "⟦{strong}⟧"
credentials += Credentials("Sonatype Nexus Repository Manager", "{host}", "{user}", "⟦{strong}⟧")
url = https://{user}:⟦{alnum24}⟧@{host}/{slug}.git⏎fetch = +refs/heads/*:refs/remotes/origin/*
https://{user}:⟦ghp_{alnum36}⟧@github.com
hosts:⏎  github.com:⏎    user: {user}⏎    oauth_token: ⟦gho_{alnum36}⟧⏎    git_protocol: https
poetry config pypi-token.{word} ⟦pypi-{url64120}⟧
conda config --add channels https://{host}/t/⟦{alnum24}⟧/get/{word}
proxy_user={user}⏎proxy_pass=⟦{line}⟧
# admin and network programs
svn checkout --username {user} --password ⟦{shell}⟧ https://{host}/svn/trunk
mosquitto_pub -h {host} -u {user} -P ⟦{shell}⟧ -t {word}/temp -m {small}
ipmitool -I lanplus -H {host} -U ADMIN -P ⟦{shell}⟧ chassis power status
xfreerdp /v:{host} /u:{user} /p:⟦{alnum16}⟧ /cert:ignore
rdesktop -u {user} -p ⟦{shell}⟧ {host}
ldapadd -x -D "cn=admin,dc=example,dc=org" -w '⟦{any}⟧' -f {file}
echo '⟦{any}⟧' | kinit {user}@EXAMPLE.ORG
printf '%s' '⟦{any}⟧' | cryptsetup luksOpen /dev/sdb1 {word} -
curl -x http://{host}:3128 --proxy-user {user}:⟦{alnum16}⟧ https://example.com
http_proxy=http://{user}:⟦{alnum16}⟧@{host}:8080 apt-get update
RESTIC_PASSWORD=⟦{shell}⟧ restic -r sftp:{user}@{host}:/backup snapshots
BORG_PASSPHRASE='⟦{any}⟧' borg create ::{date} {path}
SSHPASS=⟦{shell}⟧ sshpass -e rsync -a {path} {user}@{host}:/srv/
clickhouse-client --host {host} --user {user} --password ⟦{shell}⟧ -q 'SHOW TABLES'
influx query -t ⟦{b6488}⟧ -o {word} 'buckets()'
cypher-shell -u neo4j -p ⟦{shell}⟧ "MATCH (n) RETURN count(n)"
nats pub --user {user} --password ⟦{shell}⟧ {word} hello
isql {word} {user} ⟦{alnum16}⟧ -b
mc alias set {word} https://{host}:9000 {user} ⟦{alnum32}⟧
rclone config create {word} webdav url=https://{host} user={user} pass=⟦{shell}⟧ --obscure
qpdf --password=⟦{shell}⟧ --decrypt in.pdf out.pdf
pdftotext -upw ⟦{shell}⟧ {word}.pdf -
unzip -P ⟦{shell}⟧ {word}.zip -d {path}
ansible-playbook site.yml -e "ansible_password=⟦{strong}⟧"
net user {user} ⟦{pw}⟧ /add
schtasks /create /tn {word} /tr {file} /ru {user} /rp ⟦{alnum16}⟧
wmic /node:{host} /user:{user} /password:⟦{alnum16}⟧ os get caption
psexec \\{host} -u {user} -p ⟦{alnum16}⟧ cmd
$cred = ConvertTo-SecureString "⟦{any}⟧" -AsPlainText -Force
New-Object System.Net.NetworkCredential('{user}', '⟦{strong}⟧') # domain login and password
xcrun notarytool submit {file} --apple-id {user}@example.com --password ⟦{lower4}-{lower4}-{lower4}-{lower4}⟧ --team-id {upper10}
security add-generic-password -a {user} -s {slug} -w ⟦{shell}⟧
security unlock-keychain -p '⟦{any}⟧' login.keychain-db
bw unlock '⟦{any}⟧' --raw
export BW_SESSION="⟦{b6488}⟧"
dns_cloudflare_api_token = ⟦{alnum40}⟧
gcloud sql users set-password {user} --instance={slug} --password=⟦{shell}⟧
doctl auth init -t ⟦dop_v1_{hex64}⟧
linode-cli linodes create --root_pass '⟦{any}⟧' --type g6-nanode-1
databricks configure --host https://{host} && export DATABRICKS_TOKEN=⟦dapi{hex32}⟧
# daemons and devices
[Interface]⏎PrivateKey = ⟦{b6444}⟧⏎Address = 10.8.0.{small}/24
PresharedKey = ⟦{b6444}⟧
: PSK "⟦{alnum24}⟧"
/etc/ppp/chap-secrets:⏎"{user}" * "⟦{alnum16}⟧" *
set security ike policy {word} pre-shared-key ascii-text "⟦{alnum20}⟧"
/interface pptp-client add connect-to={host} name={word} user={user} password=⟦{alnum16}⟧
tacacs-server host {host} key 0 ⟦{alnum16}⟧
wpa_passphrase=⟦{alnum16}⟧⏎wpa_key_mgmt=WPA-PSK⏎ssid={word}
rtmp_server: rtmp://{host}/live⏎stream_key: ⟦live_{digit9}_{alnum30}⟧
bindDN cn=reader,dc=example,dc=org⏎bindPW ⟦{alnum16}⟧
static-auth-secret=⟦{hex64}⟧⏎realm={host}
registration_shared_secret: "⟦{strong}⟧"
key "{word}-key" {⏎    algorithm hmac-sha256;⏎    secret "⟦{b6444}⟧";⏎};
wifi:⏎  ssid: {word}⏎  password: "⟦{pw}⟧"
api:⏎  encryption:⏎    key: "⟦{b6444}⟧"⏎ota:⏎  password: "⟦{hex32}⟧"
<apiToken>⟦{hex34}⟧</apiToken>
<Setting Name="SmtpPassword" Value="⟦{strong}⟧"/>
<wsse:Username>{user}</wsse:Username><wsse:Password Type="#PasswordText">⟦{strong}⟧</wsse:Password>
<SharedSecret encoding="plain">⟦{strong}⟧</SharedSecret>
# other languages (Italian, Portuguese, Dutch, Polish, Russian, Japanese, Chinese, Swedish)
La password del database è ⟦{strong}⟧
Nome utente: {user}⏎Parola d'ordine: ⟦{line}⟧
Chiave API: ⟦{strong}⟧
A senha do banco de produção é ⟦{strong}⟧
usuário: {user} senha: ⟦{strong}⟧
senha_banco = "⟦{any}⟧"
Het wachtwoord van de database is ⟦{strong}⟧
Wachtwoord: ⟦{strong}⟧
Hasło: ⟦{strong}⟧
hasło do bazy to ⟦{strong}⟧, nie zapisuj w repo
Пароль: ⟦{strong}⟧
Логин: {user}⏎Пароль: ⟦{line}⟧
вот токен для доступа: ⟦{strong}⟧
パスワード: ⟦{strong}⟧
APIキーは「⟦{strong}⟧」です
密码:⟦{strong}⟧
数据库密码是 ⟦{strong}⟧,用户名是 {user}
访问令牌:⟦{jwt}⟧
비밀번호: ⟦{strong}⟧
Lösenordet till servern är ⟦{strong}⟧
Şifre: ⟦{strong}⟧
# layouts where the value is apart
{Title} (shown only once)⏎⏎⟦{strong}⟧
Client ID⏎{uuid}⏎Client Secret⏎⟦{strong}⟧
export {NAME}=\⏎"⟦{any}⟧"
{camel}:⏎    "⟦{any}⟧",
{name} = (⏎    "⟦{strong}⟧"⏎)
{name}: >-⏎  ⟦{strong}⟧
{NAME}: |⏎    ⟦{strong}⟧
name⇥value⏎{name}⇥⟦{strong}⟧
| Service | Login | Password |⏎|---|---|---|⏎| {word} | {user} | `⟦{alnum16}⟧` |
host;user;password⏎{host};{user};⟦{alnum16}⟧
login: {user} / ⟦{pw}⟧ (password)
Username ▸ {user}  Password ▸ ⟦{alnum16}⟧
? Enter your {spaced}: ⟦{strong}⟧
? Paste your authentication token: › ⟦{strong}⟧
credentials ::= { login '{user}', {p.camel} '⟦{any}⟧' }
ARGV: ["--{kebab}", "⟦{strong}⟧", "--verbose"]
args: [ '--user', '{user}', '--password', '⟦{strong}⟧' ]
subprocess.run(["mysqldump", "-u", "{user}", "-p⟦{alnum16}⟧", "{word}"])
@pytest.fixture⏎def real_{name}():⏎    return "⟦{strong}⟧"
public function get{Type}Password(): string { return '⟦{strong}⟧'; }
assert response.json()["access_token"] == "⟦{jwt}⟧"
setx {NAME} "⟦{strong}⟧" /M
set -gx {NAME} ⟦{shell}⟧
({p.spaced}) ⟦{pw}⟧  <- for {user}@{host}
The {p.spaced} used to be something else, since {date} it is "⟦{any}⟧".
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
# references in config
APP_KEY=⏎DB_PASSWORD=⏎MAIL_PASSWORD=null
DB_PASSWORD="${MYSQL_PASSWORD}"
SENDGRID_API_KEY=SG.xxxxxxxxxxxxxxxxxxxx
{NAME}={{ vault_{name} }}
password: "{{ lookup('env', '{NAME}') }}"
mysql_root_password: !vault |
  {NAME}: $CI_JOB_TOKEN
before_script:⏎  - echo "$CI_REGISTRY_PASSWORD" | docker login -u "$CI_REGISTRY_USER" --password-stdin $CI_REGISTRY
existingSecret: {slug}⏎existingSecretPasswordKey: {kebab}
  secretName: {slug}-tls
{{- $password := randAlphaNum 24 | b64enc }}
password: {{ .Values.auth.password | quote }}
secrets:⏎  db_password:⏎    file: ./secrets/db_password.txt
POSTGRES_PASSWORD_FILE: /run/secrets/postgres_password
"Password": "#{DatabasePassword}#"
"ConnectionStrings": { "Default": "Server=localhost;Database={word};Trusted_Connection=True;" }
<password>${env.NEXUS_PASSWORD}</password>
signingConfig { storePassword System.getenv("KEYSTORE_PASSWORD") }
az keyvault secret show --vault-name {slug} --name {kebab} --query value -o tsv
{NAME}=$(gcloud secrets versions access latest --secret={kebab})
kubectl get secret {slug} -o jsonpath='{.data.password}' | base64 -d
mysql -u {user} -p {word} < {file}
mysql -h {host} -u root -p"$MYSQL_ROOT_PASSWORD" -e 'SHOW DATABASES'
helm install {slug} bitnami/postgresql --set auth.existingSecret={slug}
curl --header "PRIVATE-TOKEN: <your_access_token>" "https://gitlab.example.com/api/v4/projects"
http GET https://{host}/items "Authorization: Bearer $JWT"
openssl rand -base64 32
php artisan key:generate --show
bin/rails credentials:edit --environment production
wrangler secret put {NAME}
heroku config:unset {NAME} -a {slug}
# code
config.{name} = ENV.fetch('{NAME}')
'{name}' => env('{NAME}'),
$password = $_POST['password'] ?? '';
if (password_verify($password, $user->password)) {
'password' => 'required|string|min:8|confirmed',
protected $hidden = ['password', 'remember_token'];
has_secure_password validations: false
validates :password, presence: true, length: { minimum: 12 }
params.require(:user).permit(:email, :password, :password_confirmation)
<%= f.password_field :password, autocomplete: "new-password" %>
Rails.application.config.filter_parameters += [:passw, :secret, :token, :_key]
var {camel} = builder.Configuration["{Title}"];
public string Password { get; set; } = string.Empty;
[Required, DataType(DataType.Password)] public string ConfirmPassword { get; set; }
var token = await _userManager.GeneratePasswordResetTokenAsync(user);
CancellationToken cancellationToken = default
public async Task<{Type}> GetAsync(string key, CancellationToken token)
data class LoginRequest(val username: String, val password: String)
val token = prefs.getString(KEY_TOKEN, null) ?: return
OutlinedTextField(value = password, onValueChange = { password = it }, label = { Text("Password") })
SecureField("Password", text: $password)
let token = try keychain.get("accessToken")
guard let token = session.token else { throw AuthError.missingToken }
func (s *AuthService) ValidateToken(ctx context.Context, token string) (*Claims, error) {
tok, err := jwt.ParseWithClaims(raw, &Claims{}, func(t *jwt.Token) (any, error) { return s.key, nil })
case token.IDENT, token.STRING:
pub fn verify_password(hash: &str, password: &str) -> Result<bool, argon2::Error> {
let Some(token) = self.tokens.next() else { break };
#[derive(Deserialize)] struct Credentials { username: String, password: String }
let key = map.keys().next().unwrap();
PasswordAuthentication getPasswordAuthentication() {
http.csrf().disable().authorizeHttpRequests(a -> a.requestMatchers("/login").permitAll());
@Test void shouldThrowWhenPasswordIsBlank() {
Map<String, Object> claims = jwtService.extractAllClaims(token);
expect(screen.getByLabelText(/password/i)).toBeInTheDocument();
await page.fill('input[name="password"]', process.env.E2E_PASSWORD!);
cy.get('[data-testid=password-input]').type(Cypress.env('password'))
const token = localStorage.getItem('token');
res.cookie('refreshToken', token, { httpOnly: true, secure: true });
export const selectToken = (state: RootState) => state.auth.token;
axios.interceptors.request.use(c => { c.headers.Authorization = `Bearer ${getToken()}`; return c; });
<TextField type={showPassword ? 'text' : 'password'} {...register('password')} />
{items.map((item) => <Row key={item.id} item={item} />)}
foreach ($rows as $key => $value) {
CREATE UNIQUE INDEX idx_sessions_token ON sessions (token);
DROP TABLE IF EXISTS password_resets;
partition_key = "tenant_id"⏎sort_key      = "created_at"
hash_key       = "pk"⏎range_key      = "sk"
cache-key: v1-deps-{{ checksum "package-lock.json" }}
key: ${{ runner.os }}-node-${{ hashFiles('**/package-lock.json') }}
"max_completion_tokens": 1024, "top_p": 1
prompt tokens: {num}, completion tokens: {num}, total: {num}
"keybindings": [{ "key": "ctrl+shift+p", "command": "{word}.{word}" }]
$token-font-size-base: 1rem !default;
# outputs
ERROR 1045 (28000): Access denied for user '{user}'@'localhost' (using password: YES)
mysqldump: [Warning] Using a password on the command line interface can be insecure.
WARNING! Using --password via the CLI is insecure. Use --password-stdin.
(error) NOAUTH Authentication required.
MongoServerError: Authentication failed.
ActiveRecord::RecordInvalid: Validation failed: Password can't be blank
Illuminate\Session\TokenMismatchException: CSRF token mismatch.
SyntaxError: Unexpected token '<', "<!DOCTYPE "... is not valid JSON
JSON.parse: unexpected token at line {small}
org.springframework.security.authentication.BadCredentialsException: Bad credentials
NAME                 TYPE     DATA   AGE⏎{slug}   Opaque   2      {small}d
secret/{slug} created
Parameters: {"email"=>"{user}@example.com", "password"=>"[FILTERED]"}
  + password             = (sensitive value)⏎  + port                 = 5432
random_password.{word}: Creation complete after 0s [id=none]
Successfully logged in to registry as {user}. Your credentials are stored in the keychain.
Your password has expired and must be changed before continuing.
ok  	github.com/{user}/{slug}/internal/token	0.0{small}s
--- PASS: TestRefreshToken_Expired (0.00s)
 create mode 100644 app/Http/Controllers/Auth/PasswordResetController.php
# digests
"checksum" = "{hex64}"
checksum = "{hex64}"
  resolved "https://registry.yarnpkg.com/{slug}/-/{slug}-{ver}.tgz#{hex40}"
    {slug} ({ver})⏎      {slug} (>= {ver})
Merge commit '{hex40}' into main
X-Request-Id: {uuid}
etag: "{hex32}"
pick {hex7} Rename password helper
-----BEGIN PUBLIC KEY-----⏎{b6464}⏎{b6464}⏎-----END PUBLIC KEY-----
# prose
Go to Project → Settings → CI/CD → Variables and add `{NAME}`.
The login page shows "Incorrect password" even when the password is correct.
Why does the JWT token expire earlier than configured?
The secret is mounted as a volume at /etc/secrets and read at startup.
Replace `YOUR_API_KEY` with the key from your dashboard.
fix(mail): don't log SMTP password on connection failure
# wording in several languages without a value
Password dimenticata?
La password deve contenere almeno {small} caratteri.
Inserisci la password di {user}:
Esqueceu a senha?
Senha: campo obrigatório
A senha deve ter pelo menos {small} caracteres
Wachtwoord vergeten?
Wachtwoord is verplicht
Nie pamiętasz hasła?
Hasło jest wymagane
Забыли пароль?
Пароль: обязательное поле
Неверный логин или пароль
パスワードを忘れた場合
パスワード: 必須項目です
请输入密码
密码不能为空
令牌已过期,请重新登录
비밀번호를 입력하세요
Glömt lösenordet?
"senha": "A senha é obrigatória",
msgid "Forgot your password?"⏎msgstr "Hai dimenticato la password?"
# package manager and build references
<password>{env.NEXUS_TOKEN}</password>
<password>${settings.nexus.password}</password>
npmAuthToken: "${NPM_TOKEN}"
credentials { username = findProperty("nexusUser") as String; password = findProperty("nexusPassword") as String }
:rubygems_api_key: <%= ENV["RUBYGEMS_KEY"] %>
withCredentials([string(credentialsId: '{kebab}', variable: '{NAME}')]) {
environment { {NAME} = credentials('{slug}') }
svn: E170001: Authentication failed for realm '{word}', no more credentials
error: failed to publish: the remote server responded with 403: token has expired
poetry config pypi-token.pypi "$PYPI_TOKEN"
[credential]⏎	helper = osxkeychain
url = https://github.com/{user}/{slug}.git
Saving password to keyring failed: No recommended backend was available.
RESTIC_PASSWORD_FILE=/etc/restic/password
BORG_PASSCOMMAND="pass show backup/{word}"
cryptsetup luksOpen --key-file /root/{slug}.key /dev/sdb1 {word}
$cred = Get-Credential -UserName {user} -Message "Enter password"
$secure = Read-Host -AsSecureString -Prompt "Password"
New-Object PSCredential($User, $SecurePassword)
security find-generic-password -a "$USER" -s {slug} -w
wifi:⏎  ssid: !secret wifi_ssid⏎  password: !secret wifi_password
password => "${ELASTIC_PASSWORD}"
requirepass ""⏎maxmemory-policy allkeys-lru
PasswordAuthentication no⏎PubkeyAuthentication yes
password requisite pam_pwquality.so retry=3 minlen=12
auth sufficient pam_unix.so nullok try_first_pass
AuthType Basic⏎AuthUserFile /etc/apache2/.htpasswd⏎Require valid-user
ssl_certificate_key /etc/letsencrypt/live/{host}/privkey.pem;
IdentityFile ~/.ssh/id_{word}
secretGenerator:⏎- name: {slug}⏎  envs: [secrets.env]
sops --decrypt --in-place {path}
- secret-name={kebab} version=latest
  - apiGroups: [""]⏎    resources: ["secrets"]⏎    verbs: ["get", "list"]
automountServiceAccountToken: false
keyVaultName: {slug}⏎secretName: {kebab}
@Microsoft.KeyVault(SecretUri=https://{word}.vault.azure.net/secrets/{kebab}/)
arn:aws:kms:us-east-1:{digit12}:key/{uuid}
kms_key_id = aws_kms_key.{word}.arn
password_policy { minimum_length = {small} require_symbols = true }
token_ttl = "{small}m"⏎token_policies = ["default", "{word}"]
# code looking like values
{Type} {camel} = {Type}.fromEnvironment("{NAME}");
{camel} = {camel}Provider.get{Type}();
{name}={name}, timeout={small}
{name} = self._{name}_cache[key]
{name} = "{NAME}"
{NAME}_HEADER = "X-{Title}"
{NAME}_ENV_VAR = "{NAME}"
{camel}Field = "{camel}"
{camel}: PropTypes.string.isRequired,
{camel}: { type: String, required: true, select: false },
{camel}: "{Title}",
{camel}Label: "Enter your {spaced}",
password = Column(String(255), nullable=False)
password: faker.internet.password(),
password -> Varchar,
password = Regex.Replace(input, "[^a-z]", "");
field :password, :string, virtual: true, redact: true
plug :fetch_session, key: "_{word}_key"
Conn.get_req_header(conn, "authorization")
(defn valid-token? [token] (some? (:sub (decode token))))
local token = ngx.var.http_authorization
my ($user, $password) = @_;
password <- Sys.getenv("{NAME}")
-spec verify_token(binary()) -> {ok, map()} | {error, term()}.
data Token = TNum Int | TPlus | TMinus deriving (Show, Eq)
enum class TokenKind : uint8_t { Identifier, Keyword, Literal };
yylval.token = tok; return TOK_{word};
tokens { INDENT, DEDENT }⏎lexer grammar {Type}Lexer;
tokenizer.add_special_tokens({'pad_token': '<|endoftext|>'})
"eos_token": "<|im_end|>", "pad_token_id": {num}, "bos_token": "<s>"
"model_max_length": 8192, "max_new_tokens": 512
{ "$type": "dimension", "token": "space.200", "value": "16px" }
SETTINGS_KEY = "settings.theme.dark"
queryKey: ['users', userId],
trackBy: item => item.key
assert_raises(InvalidToken) { decrypt("not-a-token") }
with pytest.raises(ValueError, match="password too short"):
# outputs and records
Set-Cookie: session=; Max-Age=0; Path=/
cookies: _ga, _gid, sessionid, csrftoken
Access-Control-Allow-Headers: Authorization, X-Api-Key, X-CSRF-Token
pam_unix(sshd:auth): authentication failure; logname= uid=0 user={user}
sshd[{num}]: Failed password for invalid user {user} from 10.0.0.{small} port {num} ssh2
sshd[{num}]: Accepted publickey for {user} from 10.0.0.{small}: ED25519 SHA256:{alnum43}
kinit: Preauthentication failed while getting initial credentials
Key fingerprint = {upper4} {upper4} {upper4} {upper4} {upper4}
gitleaks: no leaks found, {num} commits scanned
password strength: weak (score 1/4)
 password_changed_at | {date}
 id | key | label⏎----+-----+-------⏎ {small} | {slug} | {words}
Found {small} secrets in vault '{word}': {kebab}
gpg: using EDDSA key {upper40}
gpg: Good signature from "{user} <{user}@example.com>"
build-id: {hex40}, snapshot {hex8}
session {uuid} resumed, {num} tokens left in context
{"type":"assistant","message":{"id":"msg_01{alnum22}","stop_reason":"tool_use"}}
kid: {url6443}, alg: RS256, use: sig
{"keys":[{"kty":"EC","crv":"P-256","x":"{url6443}","y":"{url6443}"}]}
content-sha256: {b6444}
"""
