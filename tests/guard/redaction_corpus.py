"""A labelled corpus for redaction: secrets in the places where agents meet them, and what only looks like one.

One case a line. In `SECRETS` the marks ⟦ ⟧ enclose what must be masked; everything else must survive. A name in
braces is a made-up random text of its alphabet and length (`{hex40}`), so no token stands whole in this file.
`⏎` is a line break.
"""

import base64
import random
import re
import string
from dataclasses import dataclass

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
⟦-----BEGIN RSA PRIVATE KEY-----⏎Proc-Type: 4,ENCRYPTED⏎DEK-Info: AES-128-CBC,{HEX32}⏎⏎{b6464}⏎{b6464}⏎-----END RSA PRIVATE KEY-----⟧
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
"""

INNOCENT = r"""
# code: types, calls, names
token: str
token: str | None = None
password: string;
password?: string;
password: Optional[str] = None
secret: cfg.secret
secret = settings.SECRET_KEY
password = get_password()
password = getpass.getpass("Password: ")
token = await fetch_token(session)
token = request.headers.get("X-Auth-Token")
token = tokens[i]
token := lexer.Next()
const token = process.env.GITHUB_TOKEN;
const token = useToken();
api_key = os.environ["OPENAI_API_KEY"]
api_key=os.getenv("OPENAI_API_KEY"),
apiKey: process.env.OPENAI_API_KEY,
apiKey: configService.getOrThrow('OPENAI_API_KEY'),
apiKey: string,
api_key: SecretStr
self.password = password
this.token = token;
user.password = hashPassword(req.body.password);
if (password !== confirmPassword) {
if token == "EOF":
return { token, user }
def login(username: str, password: str) -> Session:
func New(secret []byte, token string) *Client {
fn auth(token: &str, secret: &'a str) -> Result<()> {
public void setPassword(String password) { this.password = password; }
private readonly secret: Buffer;
password: { type: String, required: true },
password: z.string().min(8),
password = models.CharField(max_length=128)
password = forms.CharField(widget=forms.PasswordInput)
PASSWORD_RESET_TIMEOUT = 259200
ACCESS_TOKEN = "access_token"
const PASSWORD = "password";
RESET_PASSWORD: "reset_password",
FORGOT_PASSWORD = '/forgot-password'
token_type: bearer
"token_type": "Bearer",
tokenizer = AutoTokenizer.from_pretrained("gpt2")
eos_token: "</s>",
pad_token="<pad>",
next_token = "IDENT"
{ token: "keyword.operator", regex: /[a-z]+/ },
token: "comment",
case Token.STRING: return token;
std::string token = parser.next();
enum Token { IDENT = 1, NUMBER = 2 };
import secrets; secrets.token_hex(32)
from app.auth import token, password
credentials: "include",
credentials: 'same-origin'
password_hasher = PasswordHasher()
secret_name = "prod/db"
secretName: db-credentials
    secretKeyRef:⏎      name: db-credentials⏎      key: password
token_url="https://auth.example.com/oauth/token"
"authorization": "https://auth.example.com/authorize", "token": "https://auth.example.com/token"
passwordField.setText("");
document.getElementById("password").value = "";
<input type="password" name="password" placeholder="Password">
<label for="password">Password</label>
<password>${db.password}</password>
assert response.json()["token"] is not None
self.assertEqual(token, "")
expect(wrapper.find('password')).toBe(true)
token = token.strip()
secret = base64.b64decode(data)
key = "user:%d:token" % uid
password = a if b else c
tokens = [t for t in text.split()]
monkeypatch.setenv("API_TOKEN", "test-token")
api_key="your-api-key-here"
apiKey: "<your-key>"
x-api-key: ${API_KEY}
headers = {"Authorization": f"Bearer {token}"}
headers: { Authorization: `Bearer ${token}` },
'Authorization': 'Bearer ' + token,
req.Header.Set("Authorization", "Bearer "+token)
{"authorization", "proxy-authorization", "cookie"}
Authorization: authHeader,
authorization: string;
Authorization: required
cookie = SimpleCookie()
const cookie = req.headers.cookie;
res.cookie("session", token, { httpOnly: true });
parse_cookie(cookie=cookie, cls=cls)
sk-fading-circle sk-circle12 sk-child-animation-delay
class="sk-cube-grid-loading-animation-large"
npm_config_registry=https://registry.npmjs.org/
hf_hub_download(repo_id="gpt2", filename="config.json")
github_pat_ is the prefix of fine-grained tokens
import { AIzaButton } from './buttons'
const akia = 'AKIA';
task-1234567890-abcdefghij-klmnopqrst
# references and placeholders
PASSWORD=$DB_PASSWORD
PASSWORD=${DB_PASSWORD}
PASSWORD=${DB_PASSWORD:-}
PASSWORD=$(cat /run/secrets/db)
SET PASSWORD=%DB_PASSWORD%
password: ${{ secrets.DB_PASSWORD }}
password: "{{ vault_db_password }}"
password: !vault |
password: <your-password>
password: ********
password: xxxxxxxx
password: [REDACTED]
password=[REDACTED:password]
password: "***"
token: "..."
token = "<TOKEN>"
Authorization: Bearer <token>
Authorization: Bearer $TOKEN
Authorization: Bearer ${TOKEN}
Authorization: Bearer {token}
Authorization: Bearer YOUR_ACCESS_TOKEN
Bearer [REDACTED]
postgres://user:${DB_PASSWORD}@db/app
postgres://user:<password>@db/app
postgres://{user}:{password}@{host}/app
https://user:***@example.com
mysql -u root -p$MYSQL_PWD app
sshpass -p "$PASS" ssh host
curl -u "$USER:$PASS" https://example.com
curl -H "X-Api-Key: $API_KEY" https://example.com
api_key: YOUR_API_KEY
API_KEY=changeme-please
client_secret: REPLACE_ME
password = "your_password_here"
var.db_password
password = var.db_password
password = data.aws_ssm_parameter.db.value
secret: !Ref DbSecret
token: !Sub "${Token}"
# numbers, ids, digests
tokenCount: 1250
max_tokens=4096
"total_tokens": 18250,
prompt_tokens: 812, completion_tokens: 90
token_budget: 200000
tokens used: 51234
commit {hex40}
git checkout {hex40}
Merge {hex40} into {hex40}
index {hex7}..{hex7} 100644
sha256:{hex64}
image: nginx@sha256:{hex64}
"integrity": "sha512-{b6486}=="
resolved "https://registry.yarnpkg.com/a/-/a-1.0.0.tgz#{hex40}"
flask==3.0.0 --hash=sha256:{hex64}
id: {uuid}
session {uuid} resumed
request_id={uuid} status=200
ETag: "{hex32}"
md5 {hex32}  a.tar.gz
checksum = "{hex64}"
toolu_{alnum24} msg_{alnum24} call_{alnum24}
claude-opus-4-6 and gpt-4o-mini-2024-07-18
/srv/a/secret-notes.md
src/auth/token.py:12: error: missing type
tests/test_token.py::test_token PASSED
./secrets/README.md
GIT_SHA={hex40}⏎PATH=/usr/local/bin:/usr/bin⏎LANG=en_US.UTF-8⏎BUILD_ID={uuid}⏎HOME=/root
LS_COLORS=rs=0:di=01;34:ln=01;36:mh=00:pi=40;33⏎TERM=xterm-256color⏎SHLVL=1⏎PWD=/srv/app
PWD=/home/bob/project
OLDPWD=/home/bob
2026-01-02T03:04:05.678Z
data:image/png;base64,{b6480}
-----BEGIN CERTIFICATE-----⏎{b6464}⏎{b6440}⏎-----END CERTIFICATE-----
-----BEGIN PUBLIC KEY-----⏎{b6464}⏎-----END PUBLIC KEY-----
grep -rn -- '-----BEGIN RSA PRIVATE KEY-----' .
if "-----BEGIN PRIVATE KEY-----" in text:
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{b6443} bob@host
pk_live_{alnum24}
"publicKey": "{b6443}="
publicKeyToken="{hex16}"
        - name: GIT_SHA⏎          value: {hex40}
arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/db-AbCdEf
color: #a1b2c3d4
0x{hex40}
eyJhIjoxfQ== is base64 of a small object
version = "1.2.3-beta.4+build.5678"
token: v1.2.3
password: 2024-01-01
localhost:8080:5432
docker run -p 8080:80 -v /a:/b nginx
mkdir -p /srv/app && cp -p a b
ssh -p 2222 bob@host
curl -u https://example.com
git clone git@github.com:acme/app.git
https://example.com:8443/@scope/pkg
http://localhost:3000/users/@me
ssh://git@github.com:22/acme/app.git
npm install @types/node@20.1.0
mailto:bob@example.com
# prose and logs
bearer of news
the bearer of this letter
Bearer authentication is required
WWW-Authenticate: Bearer realm="api", error="invalid_token"
Basic authentication failed
basic understanding of the problem
password reset flow
Password: (hidden)
Password is required
"password": "Password",
"password": "Enter your password",
password: 'Passwort eingeben'
"passwordRequired": "Please enter a password",
error: invalid token
Invalid password: must be at least 8 characters
Access denied for user 'root'@'localhost' (using password: YES)
passwd: password updated successfully
passwd:         files systemd
token: expired
token: valid
secret: not found
Token: missing
The token is refreshed every hour; the secret never leaves the vault.
Use --password to set it, or --token for CI.
usage: app [--password PASSWORD] [--token TOKEN]
  --password string   password of the account
  -p, --password      read the password from stdin
Cookie: none
This site uses cookies: see the policy.
The secret: patience
Keyboard key: press any
Authorization: see the documentation below
the api key is stored in the keychain
API key: not set
signature: valid
signature = hmac.new(key, body, sha256).hexdigest()
"signature": "def f(a, b)",
value: 42
name: token⏎description: A token
docs: [token](https://example.com/token)
| password | string | yes | the password of the account |
- `token` (string): the token to use
1 passed, 0 failed: test_password_reset
remote: Resolving deltas: 100% (12/12)
Step 3/9 : ARG TOKEN
--mount=type=secret,id=token
secrets: inherit
permissions: { id-token: write }
with: { token: "${{ github.token }}" }
kubectl get secret db-credentials -o yaml
vault kv get secret/prod/db
cat ~/.ssh/id_rsa.pub
chmod 600 ~/.ssh/id_rsa
password-store
"devDependencies": { "js-tokens": "^9.0.0", "cookie": "^0.6.0" }
"cookie": "^0.6.0",
"jsonwebtoken": "^9.0.2",
"passport-http-bearer": "^1.0.1"
secret-santa@1.2.3
"token": "the", "logprob": -0.25
"password": null, "token": ""
"password": {"type": "string", "description": "The password"}
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


CASES = [*_cases(SECRETS, 7), *_cases(INNOCENT, 11)]
