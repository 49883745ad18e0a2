"""Secrets for the redaction corpus, one case a line, in the places where agents meet them.

Written as `corpus` explains: ⟦ ⟧ enclose what must be masked, a name in braces is drawn at random.
"""

SECRETS = r"""
# environment files and dumps
export GITHUB_TOKEN=⟦ghp_{alnum36}⟧
GITHUB_TOKEN=⟦ghs_{alnum36}⟧
OPENAI_API_KEY=⟦sk-proj-{url64}T3BlbkFJ{url40}⟧
ANTHROPIC_API_KEY="⟦sk-ant-api03-{url93}AA⟧"
AWS_SECRET_ACCESS_KEY=⟦{b6440}⟧
AWS_SECRET_ACCESS_KEY=⟦wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY⟧
aws_secret_access_key = ⟦wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY⟧
AWS_ACCESS_KEY_ID=⟦AKIA{upper16}⟧
AWS_SESSION_TOKEN=⟦{b64200}=⟧
DB_PASSWORD=⟦letmein⟧
PGPASSWORD=⟦s3cr3t⟧ psql -h db -U app
POSTGRES_PASSWORD=⟦postgres⟧
export MYSQL_PWD='⟦Tr0ub4dor&3⟧'
SECRET_KEY=⟦{hex64}⟧
SECRET_KEY_BASE=⟦{hex128}⟧
APP_KEY=⟦base64:{b6443}=⟧
DJANGO_SECRET_KEY='⟦{sym50}⟧'
JWT_SECRET=⟦keepthisquiet⟧
SESSION_SECRET=⟦xK9-qL2_mN8⟧
STRIPE_SECRET_KEY=⟦sk_live_{alnum24}⟧
SLACK_BOT_TOKEN=⟦xoxb-{digit12}-{digit12}-{alnum24}⟧
NPM_TOKEN=⟦npm_{alnum36}⟧
HF_TOKEN=⟦hf_{alnum34}⟧
bot ⟦110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw⟧ is up
TELEGRAM_BOT_TOKEN=⟦{digit10}:AA{url33}⟧
CLIENT_SECRET=⟦{uuid}⟧
GITLAB_TOKEN=⟦glpat-{url20}⟧
VAULT_TOKEN=⟦hvs.{url95}⟧
REDIS_PASSWORD=⟦correcthorse⟧ redis-server --port 6379
SMTP_PASS=⟦mailPass99⟧
TOKEN=⟦d41d8cd98f00b204⟧
set DB_PASSWORD=⟦Winter2024!⟧
setx API_TOKEN ⟦{alnum32}⟧
ENV API_TOKEN ⟦{alnum32}⟧
PATH=/usr/bin⏎HOME=/root⏎LANG=en_US.UTF-8⏎SHELL=/bin/bash⏎DEPLOY_HOOK=⟦{mixed40}⟧⏎USER=root
HOSTNAME=ci-7⏎declare -x BUILD_AUTH="⟦{mixed36}⟧"⏎PWD=/srv⏎SHLVL=1⏎_=/usr/bin/env
  NODE_ENV: production⏎  PORT: 8080⏎  SENTRY_DSN_RAW: ⟦{mixed32}⟧⏎  LOG_LEVEL: info
# configuration
password: ⟦hunter2hunter2⟧
password: ⟦hunter⟧
  password: "⟦p@ss w0rd⟧"
db_pass: ⟦s3cretDB⟧
passphrase: "⟦correct horse battery staple⟧"
  secret: ⟦{alnum40}⟧
clientSecret: '⟦{url40}⟧'
client_secret = "⟦{url40}⟧"
password = ⟦hunter2⟧
password=⟦hunter2⟧
[db]⏎password = ⟦S3cure!Pass⟧
spring.datasource.password=⟦S3cure!Pass⟧
quarkus.datasource.password: ⟦S3cure!Pass⟧
  token: ⟦{hex40}⟧
auth_token: ⟦{hex32}⟧
refreshToken: "⟦{url64}⟧"
"access_token": "⟦{url43}⟧",
"password": "⟦letmein!⟧"
{"user": "bob", "password": "⟦hunter2⟧", "remember": true}
{\"user\":\"bob\",\"password\":\"⟦hunter2⟧\"}
{"body": "{\"client_secret\":\"⟦{alnum32}⟧\"}"}
{"name": "DB_PASSWORD", "value": "⟦s3cretDB⟧"}
        - name: DB_PASSWORD⏎          value: ⟦s3cretDB⟧
        - name: API_TOKEN⏎          value: "⟦{alnum32}⟧"
<add key="ApiKey" value="⟦{alnum32}⟧" />
<add key="ClearTextPassword" value="⟦s3cret!DB⟧" />
<password>⟦s3cret!DB⟧</password>
<string name="google_api_key">⟦AIza{url35}⟧</string>
secret_key: |⏎  ⟦{alnum40}⟧
//npm.example.com/:_authToken=⟦npm_{alnum36}⟧
_auth=⟦{userpass}⟧
{"auths":{"registry.example.com":{"auth":"⟦{userpass}⟧"}}}
machine github.com login bob password ⟦{alnum40}⟧
aws_secret_access_key = ⟦{b6440}⟧
aws configure set aws_secret_access_key ⟦{b6440}⟧
signing_key: ⟦{mixed40}⟧
ENCRYPTION_KEY=⟦{hex64}⟧
webhook_secret: ⟦whsec_{alnum32}⟧
admin_password: ⟦changed-by-bob-7⟧
password_prod: "⟦{mixed24}⟧"
token_value = "⟦{mixed32}⟧"
signature: ⟦{hex64}⟧
signature:⏎  canonicalization: v1⏎  value: ⟦{HEX64}⟧
credentials: ⟦{alnum32}⟧
user: bob⏎pwd: ⟦bobspassword⟧⏎host: db
# source code
password = "⟦hunter2⟧"
password := "⟦hunter2⟧"
const apiKey = "⟦{alnum32}⟧";
let token: String = "⟦{alnum32}⟧".to_string();
api_key: str = "⟦{alnum24}⟧"
String password = "⟦S3cure!Pass⟧";
private static final String SECRET = "⟦{mixed24}⟧";
$password = '⟦P@$$w0rd⟧';
define('DB_PASSWORD', '⟦Xk9#mQ2vLp7z⟧');
os.environ["DB_PASSWORD"] = "⟦s3cretDB⟧"
os.environ.setdefault("SECRET_TOKEN", "⟦{mixed32}⟧")
conn = connect(host="db", user="app", password="⟦S3cure!Pass⟧")
client = OpenAI(api_key="⟦sk-{alnum48}⟧")
requests.get(url, auth=("bob", "x"), headers={"X-Api-Key": "⟦{hex32}⟧"})
config[:password] = "⟦hunter2⟧"
:password => "⟦hunter2⟧",
password => '⟦hunter2⟧'
"secret" => "⟦{alnum32}⟧",
token = f"⟦{alnum32}⟧"
session({ secret: '⟦keyboard cat⟧', token: '⟦{mixed32}⟧' })
char password[] = "⟦hunter2⟧";
var pwd = "⟦Passw0rd!⟧";
if password == "⟦kT9vQ2xLm4Zr⟧":
localStorage.setItem('token', '⟦{mixed32}⟧')
jwt.sign(payload, secret="⟦shhhhh99⟧")
.withToken("⟦{mixed32}⟧")
self.client_secret = '⟦{url40}⟧'
# command lines
mysql -u root -p⟦hunter2⟧ -e 'select 1'
mysqldump --password=⟦hunter2⟧ app
sshpass -p '⟦hunter2⟧' ssh root@10.0.0.5
sshpass -p ⟦letmein⟧ ssh root@10.0.0.5
docker login -u bob -p ⟦dckr_pat_{url27}⟧ registry.example.com
docker login --username bob --password ⟦s3cretDB⟧
curl -u bob:⟦s3cretDB⟧ https://api.example.com/v1
curl --user 'bob:⟦s3cr3t pass⟧' https://api.example.com
curl -H "Authorization: Bearer ⟦{url43}⟧" https://api.example.com
curl -H 'X-Api-Key: ⟦{hex32}⟧' https://api.example.com
curl -H "PRIVATE-TOKEN: ⟦glpat-{url20}⟧" https://gitlab.example.com
curl "https://api.example.com/v1?api_key=⟦{hex32}⟧&format=json"
curl -d 'username=bob&password=⟦hunter2⟧&x=1' https://example.com/login
wget --http-password=⟦s3cretDB⟧ https://example.com/a.tgz
redis-cli -h cache -a ⟦s3cretDB⟧ ping
mongosh -u app -p ⟦s3cretDB⟧ mongodb://db/app
gpg --batch --passphrase ⟦s3cretDB⟧ -d a.gpg
openssl rsa -in k.pem -passin pass:⟦s3cretDB⟧
htpasswd -bc .htpasswd bob ⟦s3cretDB⟧
echo '⟦s3cretDB⟧' | sudo -S apt update
echo "bob:⟦s3cretDB⟧" | chpasswd
kubectl create secret generic db --from-literal=password=⟦s3cretDB⟧
gh auth login --with-token ⟦ghp_{alnum36}⟧
helm install x --set auth.password=⟦s3cretDB⟧
ldapsearch -D cn=admin -w ⟦s3cretDB⟧ -b dc=x
deploy --token \⏎  ⟦{alnum32}⟧ \⏎  --region eu
app --api-key=⟦{alnum32}⟧ --verbose
app --api-key ⟦{alnum32}⟧
vault login -token=⟦hvs.{url95}⟧
CREATE USER app WITH PASSWORD '⟦s3cretDB⟧';
CREATE USER 'app'@'%' IDENTIFIED BY '⟦s3cretDB⟧';
$sec = ConvertTo-SecureString "⟦P@ssw0rd1⟧" -AsPlainText -Force
$env:API_KEY = "⟦{alnum32}⟧"
Invoke-RestMethod -Headers @{'X-Api-Key'='⟦abcd1234⟧'}
terraform apply -var 'db_password=⟦s3cretDB⟧'
7z x -p⟦s3cretDB⟧ backup.7z
twine upload -u __token__ -p ⟦pypi-AgEIcHlwaS5vcmc{url80}⟧ dist/*
# headers
Authorization: Bearer ⟦abcd⟧
it was sent with Bearer ⟦abcd+efgh/ijkl==⟧ and refused
Bearer ⟦abc+/=~def==⟧
Authorization: Bearer ⟦{url43}⟧
authorization: bearer ⟦{url43}⟧
Authorization: Basic ⟦{userpass}⟧
Authorization: token ⟦{hex40}⟧
Authorization: ⟦{alnum24}⟧
Authorization: ⟦abcd⟧
Authorization: Digest ⟦username="bob", realm="x", nonce="{hex32}", response="{hex32}"⟧
Proxy-Authorization: Basic ⟦{userpass}⟧
"Authorization": "Bearer ⟦{url43}⟧"
headers.set("Authorization", "Bearer ⟦{url43}⟧");
'Authorization': 'Basic ⟦{userpass}⟧',
> Authorization: Bearer ⟦{url43}⟧
X-Api-Key: ⟦abcd⟧
x-api-key: ⟦{uuid}⟧
X-Auth-Token: ⟦{hex32}⟧
X-Vault-Token: ⟦hvs.{url95}⟧
Cookie: ⟦session={alnum32}; theme=dark⟧
Set-Cookie: ⟦sid={alnum32}; Path=/; HttpOnly⟧
< set-cookie: ⟦__Host-sid={alnum32}; Secure⟧
"Cookie": "⟦sid={alnum32}⟧"
apiKey: ⟦{uuid}⟧
apiKey: ⟦{hex32}⟧
apiKey=⟦{alnum20}⟧
"apiKey" : '⟦a1b2c3⟧'
api-key => "⟦{alnum24}⟧"
The call was made with Bearer ⟦{url43}⟧ and worked.
Bearer ⟦abc+def/ghi=~zzz123==⟧
got header "Basic ⟦{userpass}⟧" from the proxy
# addresses and connection strings
postgres://u:⟦hunter2⟧@db
postgresql+asyncpg://app:⟦S3cure%21⟧@db.internal:5432/app
DATABASE_URL=mysql://root:⟦root⟧@127.0.0.1/app
redis://:⟦s3cretDB⟧@cache:6379/0
amqps://user:⟦pa@ss⟧@mq.example.com/vhost
mongodb+srv://app:⟦{alnum16}⟧@cluster0.example.net/test
https://bob:⟦ghp_{alnum36}⟧@github.com/acme/app.git
remote: https://x-access-token:⟦ghs_{alnum36}⟧@github.com/acme/app
git clone https://oauth2:⟦glpat-{url20}⟧@gitlab.com/acme/app.git
https://user:⟦pass⟧@example.com/
app:⟦s3cretDB⟧@tcp(127.0.0.1:3306)/app
Server=db;Database=app;User Id=sa;Password=⟦S3cure!Pass⟧;Encrypt=true
"Data Source=db;User ID=sa;Pwd=⟦S3cure!Pass⟧"
DefaultEndpointsProtocol=https;AccountName=acme;AccountKey=⟦{b6486}==⟧;EndpointSuffix=core.windows.net
Endpoint=sb://acme.example.net/;SharedAccessKeyName=Root;SharedAccessKey=⟦{b6443}=⟧
https://acme.blob.example.net/c?sv=2022&sig=⟦{b6443}%3D⟧
https://s3.example.com/b/k?X-Amz-Signature=⟦{hex64}⟧
https://hooks.slack.com/services/⟦T{upper8}/B{upper10}/{alnum24}⟧
https://discord.com/api/webhooks/{digit18}/⟦{url68}⟧
https://example.com/cb?access_token=⟦{url43}⟧#x
# tokens alone
I pasted ⟦ghp_{alnum36}⟧ into the chat by mistake
⟦github_pat_{alnum22}_{alnum59}⟧
the key ⟦AKIA{upper16}⟧ is old
temporary ⟦ASIA{upper16}⟧
⟦sk-ant-api03-{url93}AA⟧
⟦sk-{alnum48}⟧
use ⟦sk-or-v1-{hex64}⟧ here
⟦AIza{url35}⟧
⟦xoxp-{digit12}-{digit12}-{digit12}-{hex32}⟧
⟦xapp-1-A{upper10}-{digit13}-{hex64}⟧
⟦glpat-{url20}⟧
⟦rk_test_{alnum24}⟧
⟦SG.{url22}.{url43}⟧
⟦dop_v1_{hex64}⟧
⟦npm_{alnum36}⟧
⟦hf_{alnum34}⟧
⟦pypi-AgEIcHlwaS5vcmc{url80}⟧
⟦{jwt}⟧
jwt=⟦{jwt}⟧
id_token: ⟦{jwt}⟧
⟦slr1.{url80}.{url86}⟧
resume with recovery_token ⟦slr1.{url80}.{url86}⟧
"recovery_token": "⟦slr1.{url80}.{url86}⟧"
⟦GOCSPX-{url28}⟧
⟦ya29.{url100}⟧
⟦shpat_{hex32}⟧
⟦dapi{hex32}⟧
⟦lin_api_{alnum40}⟧
⟦gsk_{alnum52}⟧
⟦AGE-SECRET-KEY-1{upper58}⟧
⟦xkeysib-{hex64}-{alnum16}⟧
⟦sq0atp-{url22}⟧
⟦dp.pt.{alnum43}⟧
⟦glsa_{alnum32}_{hex8}⟧
⟦PMAK-{hex24}-{hex34}⟧
⟦pul-{hex40}⟧
⟦rubygems_{hex48}⟧
⟦tskey-auth-{alnum16}-{alnum32}⟧
⟦sbp_{hex40}⟧
⟦key-{hex32}⟧
⟦{hex32}-us12⟧
⟦r8_{alnum37}⟧
⟦NRAK-{upper27}⟧
bot ⟦{digit10}:AA{url33}⟧ started
# keys
⟦-----BEGIN RSA PRIVATE KEY-----⏎{b6464}⏎{b6464}⏎{b6420}==⏎-----END RSA PRIVATE KEY-----⟧
⟦-----BEGIN OPENSSH PRIVATE KEY-----⏎{b6470}⏎{b6470}⏎{b6440}=⏎-----END OPENSSH PRIVATE KEY-----⟧⏎done
⟦-----BEGIN PRIVATE KEY-----⏎{b6464}⏎{b6464}⟧
Server=db;User Id=sa;Password=⟦letmein⟧;Encrypt=true
"Default": "Host=h;Username=u;Password=⟦letmein⟧"
AccountName=logs;AccountKey=⟦abcd1234==⟧;EndpointSuffix=x
⟦-----BEGIN RSA PRIVATE KEY-----⏎{b6420}⏎{b6420}⏎{b644}⏎-----END RSA PRIVATE KEY-----⟧⏎done
⟦-----BEGIN EC PRIVATE KEY-----⏎MHcCAQEE⏎abc123==⏎-----END EC PRIVATE KEY-----⟧⏎done
"key": "⟦-----BEGIN PRIVATE KEY-----\nMIIEvQ\n-----END PRIVATE KEY-----⟧\n"
key: |⏎  ⟦-----BEGIN EC PRIVATE KEY-----⏎  {b6464}⏎  {b6464}⏎  {b6424}==⏎  -----END EC PRIVATE KEY-----⟧
"private_key": "⟦-----BEGIN PRIVATE KEY-----\n{b6464}\n{b6464}\n-----END PRIVATE KEY-----⟧\n",
⟦-----BEGIN RSA PRIVATE KEY-----⏎Proc-Type: 4,ENCRYPTED⏎DEK-Info: AES,{HEX32}⏎⏎{b6464}⏎-----END RSA PRIVATE KEY-----⟧
+⟦-----BEGIN RSA PRIVATE KEY-----⏎+{b6464}⏎+{b6464}⏎+-----END RSA PRIVATE KEY-----⟧
⟦-----BEGIN PGP PRIVATE KEY BLOCK-----⏎⏎{b6464}⏎{b6464}⏎={b644}⏎-----END PGP PRIVATE KEY BLOCK-----⟧
# logs and prose
2026-01-02T03:04:05Z INFO login ok user=bob password=⟦hunter2⟧ ip=10.0.0.1
level=debug msg="token refreshed" access_token=⟦{url43}⟧ expires=3600
WARN  Using default secret: ⟦{alnum32}⟧
DEBUG request headers={Authorization=[Bearer ⟦{url43}⟧], Accept=[*/*]}
The admin password: ⟦Winter2024!⟧
**Password:** ⟦Winter2024!⟧
- `password`: `⟦Winter2024!⟧`
Set `API_TOKEN=⟦{alnum32}⟧` and try again.
Your API key: ⟦{alnum32}⟧
+DB_PASSWORD=⟦s3cretDB⟧
12:export API_SECRET=⟦{alnum32}⟧
config.py:14:API_SECRET = "⟦{alnum32}⟧"
first line\npassword=⟦hunter2⟧\nhost=db
# tools and services
spring.datasource.url=jdbc:postgresql://db:5432/app?user=app&password=⟦s3cretDB⟧
jdbc:mysql://db/app?user=root&password=⟦letmein1⟧&useSSL=false
"DB_PASS": "⟦Sup3rS3cret⟧",
  POSTGRES_PASSWORD: ⟦example123⟧
      - POSTGRES_PASSWORD=⟦example123⟧
environment:⏎  - SECRET_KEY=⟦{alnum50}⟧
app.config['SECRET_KEY'] = '⟦{alnum32}⟧'
SECRET_KEY = "⟦django-insecure-{sym50}⟧"
const client = new S3Client({ credentials: { accessKeyId: "⟦AKIA{upper16}⟧", secretAccessKey: "⟦{b6440}⟧" } });
boto3.client('s3', aws_access_key_id='⟦AKIA{upper16}⟧', aws_secret_access_key='⟦{b6440}⟧')
provider "aws" { access_key = "⟦AKIA{upper16}⟧" }
  secret_key = "⟦{b6440}⟧"
github_token: ⟦ghp_{alnum36}⟧
git remote set-url origin https://⟦ghp_{alnum36}⟧@github.com/acme/app.git
git -c http.extraheader="AUTHORIZATION: bearer ⟦ghs_{alnum36}⟧" fetch
http.extraheader=AUTHORIZATION: basic ⟦{userpass}⟧
npm config set //npm.example.com/:_authToken ⟦npm_{alnum36}⟧
echo "//npm.example.com/:_authToken=⟦ghp_{alnum36}⟧" >> .npmrc
Enter passphrase: ⟦correct-horse-9⟧
root password: ⟦toor1234⟧
login: admin password: ⟦admin123⟧
user=admin pass=⟦admin123⟧
username: bob, password: ⟦bob-2024-pw⟧, role: admin
{"token":"⟦{hex40}⟧"}
{"data":{"accessToken":"⟦{jwt}⟧"}}
access_token=⟦{alnum40}⟧&token_type=bearer&expires_in=3600
refresh_token: ⟦1//0{url60}⟧
client_id=abc&client_secret=⟦{alnum32}⟧
OAuth2Session(client_id="x", client_secret="⟦{alnum32}⟧")
stripe.api_key = "⟦sk_test_{alnum24}⟧"
openai.api_key = '⟦sk-{alnum48}⟧'
genai.configure(api_key="⟦AIza{url35}⟧")
slack_sdk.WebClient(token="⟦xoxb-{digit12}-{digit12}-{alnum24}⟧")
bot.run("⟦MTAx{alnum22}.{alnum6}.{alnum38}⟧")
TWILIO_AUTH_TOKEN=⟦{hex32}⟧
SENDGRID_API_KEY=⟦SG.{url22}.{url43}⟧
MAILGUN_API_KEY=⟦key-{hex32}⟧
AZURE_STORAGE_KEY=⟦{b6486}==⟧
AZURE_CLIENT_SECRET=⟦abc8Q~{alnum34}⟧
GOOGLE_CLIENT_SECRET=⟦GOCSPX-{url28}⟧
CLOUDFLARE_API_TOKEN=⟦{url40}⟧
DIGITALOCEAN_TOKEN=⟦dop_v1_{hex64}⟧
HEROKU_API_KEY=⟦{uuid}⟧
DATADOG_API_KEY=⟦{hex32}⟧
export TF_VAR_db_password=⟦s3cretDB⟧
ansible_ssh_pass=⟦s3cretDB⟧
ansible-playbook -e "db_password=⟦s3cretDB⟧" site.yml
psql "host=db user=app password=⟦s3cretDB⟧ dbname=app"
psql postgresql://app:⟦s3cretDB⟧@localhost/app -c 'select 1'
redis-cli -u redis://default:⟦s3cretDB⟧@cache:6379
mongo --username app --password ⟦s3cretDB⟧ --host db
PGPASSWORD="⟦s3cretDB⟧" pg_dump app > dump.sql
ALTER USER app WITH PASSWORD '⟦s3cretDB⟧';
curl -X POST -H 'Content-Type: application/json' -d '{"username":"bob","password":"⟦s3cretDB⟧"}' https://x.example
curl -b '⟦session={alnum32}⟧' https://x.example
-H "Cookie: ⟦sessionid={alnum32}⟧"
http POST x.example/login username=bob password=⟦s3cretDB⟧
api.authenticate('bob', password='⟦s3cretDB⟧')
SecretString: '⟦{"username":"bob","password":"s3cretDB"}⟧'
val password = "⟦s3cretDB⟧"
let secret = b"⟦{alnum32}⟧";
static const char *API_KEY = "⟦{alnum32}⟧";
#define WIFI_PASSWORD "⟦mywifi1234⟧"
final apiKey = '⟦AIza{url35}⟧';
<Password>⟦S3cure!Pass⟧</Password>
<property name="password" value="⟦S3cure!Pass⟧"/>
<entry key="db.password">⟦S3cure!Pass⟧</entry>
requirepass ⟦s3cretDB⟧
bindpw ⟦s3cretDB⟧
Secret: ⟦{b6443}=⟧
Token: ⟦{hex64}⟧
x-amz-security-token: ⟦{b64300}⟧
"x-goog-api-key": "⟦AIza{url35}⟧"
kubeadm join 10.0.0.1:6443 --token ⟦abcdef.0123456789abcdef⟧
docker swarm join --token ⟦SWMTKN-1-{alnum50}-{alnum25}⟧ 10.0.0.1:2377
# chats, diffs, more tools
here are the creds, user deploy / password "⟦Gr33nLeaf!⟧"
my github token is ⟦ghp_{alnum36}⟧, please use it
[2026-03-01 10:00:00] DEBUG auth.py:44 headers={'Authorization': 'Bearer ⟦{jwt}⟧', 'Accept': '*/*'}
{"level":"info","msg":"connecting","dsn":"postgres://app:⟦Zx81qwop⟧@db:5432/app"}
conn_str = "DRIVER={ODBC};SERVER=db;UID=sa;PWD=⟦Zx81!qwop⟧"
AWS_SECRET_ACCESS_KEY: "⟦{b6440}⟧"
    aws_secret_access_key: ⟦{b6440}⟧
aws --profile x configure set aws_session_token ⟦{b64120}⟧
export SLACK_WEBHOOK=https://hooks.slack.com/services/⟦T{upper8}/B{upper8}/{alnum24}⟧
SMTP_PASSWORD: ⟦Zx81qwop⟧
MAIL_PASSWORD="⟦Zx81 qwop⟧"
rails_master_key: ⟦{hex32}⟧
password_digest = BCrypt; password = "⟦Zx81qwop⟧"
Console.WriteLine(); var connectionPassword = "⟦Zx81qwop⟧";
db.auth({ user: 'app', pwd: '⟦Zx81qwop⟧' })
createUser({user: "app", pwd: "⟦Zx81qwop⟧", roles: []})
token=⟦{alnum40}⟧; path=/
Fetching https://gitlab.example.com/api/v4/projects?private_token=⟦glpat-{url20}⟧
wget "https://example.com/f.zip?token=⟦{hex40}⟧"
ssh-keygen -p -P ⟦oldPass1⟧ -N ⟦newPass2⟧ -f key
$ export DATABRICKS_TOKEN=⟦dapi{hex32}⟧
PS C:\> $env:GITHUB_TOKEN='⟦ghp_{alnum36}⟧'
- secret: "⟦{b6443}=⟧"
"secret_access_key" => "⟦{b6440}⟧"
apikey: "⟦{alnum36}⟧"
X-API-KEY=⟦{alnum24}⟧
"X-Auth-Key": "⟦{hex37}⟧"
hashedSecret = "⟦{alnum40}⟧"
sudo -u postgres psql -c "ALTER ROLE app PASSWORD '⟦Zx81qwop⟧'"
docker run -e MYSQL_ROOT_PASSWORD=⟦Zx81qwop⟧ -p 3306:3306 mysql
docker run -e "API_TOKEN=⟦{alnum32}⟧" app
kubectl create secret docker-registry r --docker-password=⟦Zx81qwop⟧
az login --service-principal -u app -p ⟦abc8Q~{alnum34}⟧ --tenant t
gcloud auth activate-service-account --key-file=k.json --token=⟦ya29.{url60}⟧
flyctl auth token ⟦fo1_{url43}⟧
password for admin: ⟦Zx81qwop⟧
TOKEN: ⟦{jwt}⟧
+  password: "⟦Zx81qwop⟧"
-    token: ⟦ghp_{alnum36}⟧
  12│ API_SECRET="⟦{alnum40}⟧"
# classes that once leaked
{"token": "⟦QoDhYweeOwaT⟧"}
POSTGRES_PASSWORD: ⟦ZvFiFnGgswPJ⟧
{"clientSecret": "⟦48436843⟧"}
PGPASSWORD='⟦ToBeOrNotToBe!⟧' psql
JWT_SECRET=⟦spc6atScXfX/eGUF/ciL/q8Zt1⟧
curl -u joe:⟦99837286⟧ https://example.com
https://api.telegram.org/bot⟦{digit10}:AA{url33}⟧/sendMessage
backup_⟦ghp_{alnum36}⟧.tar.gz
^I⟦ghp_{alnum36}⟧
sshfs bob@db: /mnt -o password=⟦kettle⟧
setup.exe /quiet /password:⟦kettle⟧
ansible_become_pass: ⟦kettle⟧
signing.password=⟦kettle⟧
Data Source=db;Initial Catalog=app;User ID=sa;Password=⟦kettle⟧
client-key-data: ⟦LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQo{b64200}⟧
PrivateKey = ⟦{b6443}=⟧
PresharedKey = ⟦{b6443}=⟧
machine db⏎  login bob⏎  password ⟦kettle⟧
db.example.com:5432:app:bob:⟦kettle⟧
.example.com	TRUE	/	TRUE	1790000000	sid	⟦{alnum26}⟧
cookies={'sessionid': '⟦{alnum26}⟧'}
keytool -list -keystore k.jks -storepass ⟦kettle⟧
sqlplus scott/⟦tiger⟧@ORCL
jdbc:oracle:thin:scott/⟦tiger⟧@db:1521:orcl
net use Z: \\srv\share ⟦kettle⟧ /user:bob
cmdkey /add:db /user:bob /pass:⟦kettle⟧
gh secret set NAME --body "⟦kettle⟧"
https://⟦{hex32}⟧@o123456.ingest.sentry.io/42
define('NONCE_SALT', '⟦{sym60}⟧');
postgres://app:⟦pa@ss@word⟧@db:5432/app
https://⟦{alnum32}⟧@git.example.com/a.git
let password = String::from("⟦kettle⟧");
my api key is ⟦{mixed32}⟧
Backup codes: ⟦7529 4984⟧
token	⟦{mixed32}⟧
process.env.TOKEN || "⟦{mixed32}⟧"
"apiKey" -> "⟦kettle⟧",
Your new API key is: ⟦{mixed32}⟧
(setenv "GITHUB_TOKEN" "⟦{mixed32}⟧")
$pw = ConvertTo-SecureString "⟦kettle42⟧" -AsPlainText -Force
Jwts.builder().signWith(HS256, "⟦{mixed32}⟧")
"""
