"""Innocent look-alikes for the redaction corpus, one a line, from the kinds of code and logs that agents meet.

Written as `corpus` explains, without marks: nothing in them may change.
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
npm_config_registry=https://npm.example.com/
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
resolved "https://registry.example.com/a/-/a-1.0.0.tgz#{hex40}"
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
-----BEGIN PRIVATE KEY-----⏎return⏎and so on
Server=db;Password=${DB_PASSWORD};Encrypt=true
Server=db;Password=<password>;Encrypt=true
-----BEGIN RSA PRIVATE KEY-----⏎...⏎-----END RSA PRIVATE KEY-----
between -----BEGIN PRIVATE KEY----- and -----END PRIVATE KEY-----
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
# tools, services, documentation
The API key is read from the environment variable OPENAI_API_KEY.
Set OPENAI_API_KEY before running.
export OPENAI_API_KEY=
API_KEY=
PASSWORD=""
password: ''
password = None
password: null
token = nil
secret = undefined;
let token;
if (!token) throw new Error("token required");
if not api_key: raise ValueError("api_key is required")
raise AuthError("Invalid token: signature mismatch")
logger.info("token refreshed for %s", user)
console.log(`token: ${token}`)
print(f"password={password}")
fmt.Printf("token=%s\n", token)
printf("password: %s\n", pw);
password = input("Enter your password: ")
password=$(openssl rand -base64 32)
PASSWORD=`pass show db`
password: env("DB_PASSWORD")
password: lookup('env', 'DB_PASSWORD')
password: "{{ lookup('env', 'DB_PASSWORD') }}"
valueFrom: { secretKeyRef: { name: db, key: password } }
      secretName: tls-secret
type: kubernetes.io/service-account-token
existingSecret: my-release-postgresql
- run: echo "${{ secrets.NPM_TOKEN }}" | npm login
token: ${{ secrets.GITHUB_TOKEN }}
github-token: ${{ github.token }}
  "tokens": ["a", "b"],
  "max_tokens": 1024, "stop_token": "###"
bos_token_id: 1
tokenizer_config.json: {"eos_token": "<|endoftext|>"}
num_tokens = len(tokens)
token_ids = [1, 2, 3]
class TokenError(Exception): pass
class PasswordResetForm(Form):
def test_password_is_hashed(): ...
it('rejects a wrong password', async () => {
describe("token refresh", () => {
password_confirmation: params[:password],
validates :password, presence: true, length: { minimum: 8 }
has_secure_password
password VARCHAR(255) NOT NULL,
"password" text NOT NULL
ALTER TABLE users ADD COLUMN password_hash text;
SELECT id, password FROM users WHERE token = $1
UPDATE users SET password = ? WHERE id = ?
WHERE token = :token
token := r.Header.Get("Authorization")
Authorization: `token ${process.env.GITHUB_TOKEN}`
Access-Control-Allow-Headers: Authorization, Content-Type, X-Api-Key
Vary: Cookie, Authorization
Set-Cookie: (none)
proxy_set_header Authorization $http_authorization;
proxy_set_header Cookie $http_cookie;
auth_basic_user_file /etc/nginx/.htpasswd;
ssl_certificate_key /etc/ssl/private/key.pem;
private_key_path = "/etc/ssl/private/key.pem"
key_file: ~/.ssh/id_ed25519
identity_file=/root/.ssh/id_rsa
-i ~/.ssh/id_rsa -o PasswordAuthentication=no
PasswordAuthentication no
PermitRootLogin prohibit-password
auth required pam_unix.so nullok_secure
passwd -l bob
Changing password for bob.
New password: Retype new password:
su: Authentication failure
ERROR 1045 (28000): Access denied for user 'app'@'%' (using password: NO)
401 Unauthorized: Bad credentials
{"message": "Bad credentials", "documentation_url": "https://docs.github.com/rest"}
{"error":"invalid_grant","error_description":"Token has been expired or revoked."}
HTTP/1.1 403 Forbidden: missing Authorization header
Basic auth: disabled
basic idea: use two tokens
bearer token authentication (RFC 6750)
the Bearer scheme
jwt.decode(token, key, algorithms=["HS256"])
const decoded = jwt.verify(token, process.env.JWT_SECRET);
"jti": "{uuid}", "iat": 1700000000
"sub": "1234567890"
session_id: {uuid}
trace_id={hex32} span_id={hex16}
X-Request-Id: {uuid}
Docker-Content-Digest: sha256:{hex64}
uv.lock: sdist = { url = "https://files.example.org/a.tar.gz", hash = "sha256:{hex64}" }
h1:{b6443}=
go.sum: github.com/a/b v1.2.3 h1:{b6443}=
"_integrity": "sha1-{b6427}="
cargo: checksum = "{hex64}"
cache-key: v1-deps-{hex64}
key: ${{ runner.os }}-node-${{ hashFiles('**/package-lock.json') }}
primary_key=True, foreign_key="user.id"
"primaryKey": "id", "sortKey": "created_at"
partition_key = "tenant#123"
cache_key = f"user:{user_id}:profile"
key="sk" value="range"
i18n: { password: "Mot de passe", token: "Jeton" }
"password.label": "Password", "password.help": "At least 8 characters"
aria-label="Show password" data-testid="password-input"
<input id="token" value="{{ token }}">
autocomplete="current-password"
.password-strength { color: red; }
#token-list > li { margin: 0 }
s3://bucket/secret/file.txt
gs://my-bucket/tokens/2024/01/01.json
C:\Users\bob\secrets\notes.txt
docs/passwords.md:3: A password is a secret.
README.md:12:export TOKEN=<token>
# errors, tests, more code
I changed the password handling so that it hashes with argon2id.
Next: rotate the token and update the secret in the vault.
The test failed: expected token to be "abc" but got undefined
AssertionError: assert 'password' in {'username': 'bob'}
E       KeyError: 'token'
>       token = data["token"]
  File "app/auth.py", line 12, in get_token
ModuleNotFoundError: No module named 'secrets_manager'
TypeError: Cannot read properties of undefined (reading 'token')
error[E0308]: mismatched types: expected `Token`, found `&str`
warning: unused variable: `password`
src/auth.ts(12,5): error TS2322: Type 'string' is not assignable to type 'Token'.
const { password, ...rest } = user;
const [token, setToken] = useState<string | null>(null);
setPassword(event.target.value)
onChange={(e) => setPassword(e.target.value)}
password={password} onSubmit={login}
type Props = { token: string; secret?: string };
export const selectToken = (state: RootState) => state.auth.token;
private final String password;
public string Password { get; set; }
this.password = Objects.requireNonNull(password);
token: Annotated[str, Depends(oauth2_scheme)]
oauth2_scheme = OAuth2PasswordBearer(tokenUrl="token")
api_key_header = APIKeyHeader(name="X-API-Key", auto_error=False)
secret: SecretStr = Field(..., env="APP_SECRET")
cfg.Token = os.Getenv("TOKEN")
password: process.env.DB_PASSWORD || "postgres",
let token = std::env::var("TOKEN")?;
token = ENV.fetch("TOKEN")
secrets = dotenv_values(".env")
with open("token.txt") as f: token = f.read()
token = json.load(open("creds.json"))["token"]
data "aws_secretsmanager_secret" "db" { name = "prod/db" }
resource "random_password" "db" { length = 24 }
password = random_password.db.result
sensitive = true
variable "db_password" { type = string }
output "token" { value = module.auth.token }
vault_password_file = .vault_pass
password_encryption = scram-sha-256
ssl_key_password_file = "/run/secrets/key"
hba: host all all 0.0.0.0/0 scram-sha-256
"scripts": { "token": "node scripts/token.js", "test:password": "jest password" }
"@types/cookie": "^0.6.0", "cookie-parser": "~1.4.6"
Cookie policy: essential cookies only
git log --grep=password --oneline
grep -rn "password" src/ | head
rg 'api[_-]?key' -i
sed -i 's/token/secret/' file
find . -name "*token*" -not -path "./node_modules/*"
tests/auth/test_password.py ..........                    [ 42%]
PASS src/token.test.ts (5.2 s)
✓ resets the password (12 ms)
input_tokens: 1834, output_tokens: 92, cache_read_input_tokens: 15000
{"type":"token_count","info":{"total_token_usage":{"input_tokens":12091}}}
usage: prompt=1200 tokens, completion=80 tokens
"stop_reason": "max_tokens"
model: claude-opus-4-6, tokenizer: cl100k_base
Rate limit: 40,000 tokens per minute
# look-alikes that were once masked
{a:1,isRawSecret:true,b:2}
token = 1*tchar
credentials = auth-scheme [ 1*SP ( token68 / #auth-param ) ]
cookie-string = cookie-pair *( ";" SP cookie-pair )
headers:{Authorization:e,cookie:t}
Authorization:t.token?"Bearer ".concat(t.token):""
document.cookie="theme="+e+";path=/"
r.accessToken=e.accessToken||null
#define SSL_TXT_aPSK "aPSK"
pass `timeout=None` to wait
  -p, --db-password      password of the database
existingSecret: my-release-db
user.signingkey=ABCDEF0123456789
password: vault:secret/data/db#password
openssl rsa -passin env:PASS -in k.pem
Authorization: see section 4
this->token -> "next"
"kind","token"
"""
