"""A labelled corpus for redaction: secrets in the places where agents meet them, and what only looks like one.

One case a line. In `SECRETS` the marks ⟦ ⟧ enclose what must be masked; everything else must survive. A name in
braces is a made-up random text of its alphabet and length (`{hex40}`), so no token stands whole in this file.
`⏎` is a line break.
"""

import base64
import random
import re
import string
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tests.guard.redaction_corpus_innocent import INNOCENT

SECRETS = r"""
# environment files and dumps
export GITHUB_TOKEN=⟦ghp_{alnum36}⟧
GITHUB_TOKEN=⟦ghs_{alnum36}⟧
OPENAI_API_KEY=⟦sk-proj-{url64}T3BlbkFJ{url40}⟧
ANTHROPIC_API_KEY="⟦sk-ant-api03-{url93}AA⟧"
AWS_SECRET_ACCESS_KEY=⟦{b6440}⟧
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
HOSTNAME=ci-7⏎declare -x BUILD_AUTH="⟦{mixed36}⟧"⏎PWD=/work⏎SHLVL=1⏎_=/usr/bin/env
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
//registry.npmjs.org/:_authToken=⟦npm_{alnum36}⟧
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
npm config set //registry.npmjs.org/:_authToken ⟦npm_{alnum36}⟧
echo "//npm.pkg.github.com/:_authToken=⟦ghp_{alnum36}⟧" >> .npmrc
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
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A text and the spans of it that are secrets: none in an innocent one."""

    text: str
    spans: tuple[tuple[int, int], ...] = ()

    @property
    def innocent(self) -> bool:
        return not self.spans

    @property
    def secrets(self) -> tuple[str, ...]:
        return tuple(self.text[start:end] for start, end in self.spans)

    def is_masked_exactly(self, masked: str) -> bool:
        """Tell whether every secret became a placeholder and nothing else changed."""
        pattern, position = "", 0
        for start, end in self.spans:
            pattern += re.escape(self.text[position:start]) + _PLACEHOLDER
            position = end
        return re.fullmatch(pattern + re.escape(self.text[position:]), masked) is not None


_PLACEHOLDER = r"\[REDACTED(?::[a-z_]+)?\]"
_ALPHABETS = {
    "alnum": string.ascii_letters + string.digits,
    "b64": string.ascii_letters + string.digits + "+/",
    "digit": string.digits,
    "hex": "0123456789abcdef",
    "HEX": "0123456789ABCDEF",
    "mixed": string.ascii_letters + string.digits + string.digits,
    "sym": string.ascii_lowercase + string.digits + "!@#%^&*(-_=+",
    "upper": string.ascii_uppercase + "234567",
    "url": string.ascii_letters + string.digits + "_-",
}
_NAMED = re.compile(r"\{(uuid|userpass|jwt|(b64|[A-Za-z]+)(\d+))\}")


def _draw(match: re.Match[str], rng: random.Random) -> str:
    """Make up the random text that a name in braces stands for."""
    if match[1] == "uuid":
        return "-".join("".join(rng.choices(_ALPHABETS["hex"], k=size)) for size in (8, 4, 4, 4, 12))
    if match[1] == "userpass":
        return base64.b64encode(b"bob:" + "".join(rng.choices(_ALPHABETS["alnum"], k=11)).encode()).decode()
    if match[1] == "jwt":
        claims = "".join(rng.choices(_ALPHABETS["url"], k=103))
        return f"eyJ{'hbGciOiJIUzI1NiJ9'}.eyJ{claims[:60]}.{claims[60:]}"
    return "".join(rng.choices(_ALPHABETS[match[2]], k=int(match[3])))


def _read(line: str, rng: random.Random) -> Case:
    line = _NAMED.sub(lambda match: _draw(match, rng), line.replace("⏎", "\n"))
    text, spans = "", list[tuple[int, int]]()
    for index, piece in enumerate(re.split("[⟦⟧]", line)):
        if index % 2:
            spans.append((len(text), len(text) + len(piece)))
        text += piece
    return Case(text=text, spans=tuple(spans))


def _cases(lines: str, seed: int) -> list[Case]:
    rng = random.Random(seed)
    return [_read(line, rng) for line in lines.splitlines() if line and not line.startswith("# ")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How many secrets were masked, how many were not, and how much else was masked."""

    masked: int
    missed: int
    mistaken: int

    @property
    def precision(self) -> float:
        return self.masked / (self.masked + self.mistaken)

    @property
    def recall(self) -> float:
        return self.masked / (self.masked + self.missed)


def score(mask: Callable[[str], str], cases: Iterable[Case]) -> Score:
    """Count, secret by secret, what a masking does to the cases."""
    masked = missed = mistaken = 0
    for case in cases:
        text = mask(case.text)
        if case.is_masked_exactly(text):
            masked += len(case.spans)
            continue
        visible = sum(secret in text for secret in case.secrets)
        placeholders = len(re.findall(_PLACEHOLDER, text)) - len(re.findall(_PLACEHOLDER, case.text))
        masked += len(case.spans) - visible
        missed += visible
        mistaken += max(1, placeholders - (len(case.spans) - visible)) if not visible or placeholders else 0
    return Score(masked=masked, missed=missed, mistaken=mistaken)


def draw_cases(seed: int) -> list[Case]:
    """Make the corpus with other random texts in its braces."""
    return [*_cases(SECRETS, seed), *_cases(INNOCENT, seed + 1)]


CASES = draw_cases(7)
