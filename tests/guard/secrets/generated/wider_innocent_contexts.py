"""Further look-alikes, written as in `innocent_contexts`: four blind sets that were looked at afterwards."""

CONTEXTS = r"""
# code that handles secrets
{camel} = await this.fetch{Title}();
{camel}: await load{Title}(),
{name} = os.environ.get("{NAME}")
const {camel} = process.env.{NAME};
{camel}: process.env.{NAME}!,
{camel} = config.{camel}
this.{camel} = {camel};
{name}={name},
return {name}
return { {camel}, {ident} }
if ({camel} == null) {
if {camel} != nil {
assert {name} is not None
def set_{name}(self, {name}: str) -> None:
func {camel}(ctx context.Context) (string, error) {
fn {name}(&self) -> &str {
{Title} string `yaml:"{name}"`
{Title} *string `json:"{camel},omitempty"`
{camel}?: string | null;
readonly {camel}: string;
{camel}: Option<String>,
{name}: str = Field(default=None, description="{words}")
{name} = Column(String(255), nullable=False)
{name} = serializers.CharField(write_only=True)
{name} = forms.CharField(widget=forms.PasswordInput)
const [{camel}, set{Title}] = useState<string>("");
{camel}: { type: String, required: true },
{name} varchar(64) DEFAULT NULL,
INSERT INTO t (id, {name}) VALUES (?, ?)
hash_{name}({name}, salt)
verify_{name}({name}, user.{name}_hash)
bcrypt.compare({camel}, user.{camel})
hashlib.sha256({name}.encode()).hexdigest()
secrets.token_urlsafe(32)
{name} = uuid.uuid4().hex
{camel} := generate{Title}(32)
{name} = "".join(random.choices(string.ascii_letters, k={small}))
{name} = input("{spaced}: ")
{name} = getpass.getpass("Enter {spaced}: ")
read -s -p "{spaced}: " {name}
read -rsp "Password: " PASSWORD
{name} = request.headers.get("{Title}")
{name} = kwargs.pop("{name}", None)
{name} = response.json()["{name}"]
parser.add_argument("--{kebab}", required=True)
@click.option("--{kebab}", envvar="{NAME}", help="{words}.")
flag.String("{kebab}", "", "{words}")
{name}: !vault |
{name}: !Ref {Title}
{NAME}: ${{ secrets.{NAME} }}
curl -H "Authorization: Bearer $TOKEN" https://{host}
curl -u "$USER:$PASS" https://{host}
echo "${NAME}" | docker login -u {user} --password-stdin
mysql -u {user} -p {word}
psql -U {user} -h {host} {word}
{NAME}=`cat {path}`
printenv {NAME}
[ -z "${NAME}" ] && exit 1
{NAME}_FILE={path}
{name}_file: {path}
{name}_ttl: {num}
{name}_expires_in = {num}
{name}_length = {small}
{NAME}_HEADER = "X-{Title}"
{name}_url = "https://{host}{path}"
tokens: {num}
completion_tokens={num} total_tokens={num}
tokenize("{words}")
tokens = text.split()
token = tokens[{small}]
token.type == TokenType.{NAME}
const token = lexer.nextToken();
expect_token(Token::Comma)
pad_token="<pad>", eos_token="</s>"
"bos_token": "<s>", "eos_token": "</s>"
primary_key=True
primary_key: [{ident}, {ident}]
foreign_key: {ident}_id
key: {ident}
<li key={item.id}>{item.{ident}}</li>
showPassword={false}
passwordVisible: boolean
passwordRef.current.focus()
<label for="password">Password</label>
#password { width: {num}px; }
document.getElementById("password").value
$("#password").val()
page.fill("#password", password)
describe("{spaced}", () => {
test("password reset", async ({ page }) => {
throw new Error("Missing {camel}");
print(f"token: {token}")
printf("password: %s\n", password);
"Password must be at least {small} characters"
"password": "The password field is required."
"password": ["This field is required."]
"password.label": "Password"
"forgotPassword": "Forgot your password?",
password: "Passwort"
password = Senha
msgid "Password"
msgstr "Mot de passe"
path('password/reset/', views.reset, name='password_reset')
Route::post('/password/email', [C::class, 'send']);
import { getToken } from "./token";
use crate::token::{Token, TokenKind};
require 'securerandom'
@secret
@Secret() {camel}
// {spaced} is loaded from the vault
{name} = get_{name}()
{name} = os.environ["{NAME}"]
{NAME} = os.getenv("{NAME}", "")
const { {camel}, {ident} } = props;
{name} = settings.{NAME}
self.{name} = {name}
self.{name}: str | None = None
{camel}={{camel}}
{camel}: {camel}
if not {name}:
if {name} is None:
while {name}:
def {name}(self) -> str:
public String get{Title}() { return {camel}; }
public void set{Title}(String {camel}) {
get {camel}(): string {
{name}: Option<String>,
{name}: Annotated[str, Header()]
{camel} = useState('')
{camel}: z.string().min(8),
{camel}: Joi.string().required(),
{name} text not null,
ALTER TABLE {word} DROP COLUMN {name};
SELECT id, {name} FROM {word} WHERE id = $1
UPDATE users SET {name} = $1 WHERE id = $2
WHERE {name} = :{name}
{name} = secrets.token_hex(16)
{camel} = crypto.randomBytes(32).toString('hex')
{name} = request.form["{name}"]
{camel} = req.body.{camel};
{name} = args.{name}
{name} = data.get("{name}")
parser.add_argument("--{kebab}", help="{words}")
#[arg(long, env = "{NAME}")]
viper.BindEnv("{dotted}", "{NAME}")
@Value("${{dotted}}") private String {camel};
{name}: ${{NAME}}
{camel}: "${{NAME}}"
"{camel}": "{{ {name} }}"
{name}: "{{ lookup('env', '{NAME}') }}"
{name}: ENC[AES256_GCM,data:{b6420}=,iv:{b6443}=,tag:{b6422}==,type:str]
token: ${{ github.token }}
password: ${{ secrets.DOCKER_PASSWORD }}
--from-literal={kebab}="${NAME}"
curl -H "Authorization: Bearer ${{NAME}}" https://{host}
curl -u {user} https://{host}
docker login -u {user} --password-stdin
sshpass -f {path} ssh {host}
export {NAME}=$(cat {path})
{NAME}=$(vault kv get -field={name} secret/{word})
{NAME}="$1"
{NAME}=${1:?missing}
{NAME}=${{NAME}:-}
unset {NAME}
test -n "${NAME}"
Remove-Item Env:{NAME}
$env:{NAME}
{name}_path = "{path}"
{camel}Count: {num}
max_tokens: {num}
"max_tokens": {num},
"input_tokens": {num}, "output_tokens": {num}, "cache_read_input_tokens": {num}
"token_count": {num}
for token in tokens:
token = next(tokens)
case Token::Ident => {
class {Title}Token(Node):
cancellationToken: CancellationToken
CancellationToken {camel} = default
sort_key = lambda x: x.{ident}
public_key = "{path}"
partition_key: {ident}
"cacheKey": "{slug}-{ident}"
{ident}.sort(key=lambda x: x[1])
keyboard: {ident}
isRawSecret:true
isSecret: false
hasPassword: true
"requirePassword": false
password_field = "{ident}"
passwords.push(password)
<input type="password" name="password" placeholder="Password">
<input type="password" id="{ident}" autocomplete="current-password"/>
.password-input:focus { color: red; }
it("rejects an expired token", async () => {
def test_{name}_is_required():
raise ValueError("invalid {spaced}")
logger.warning("{spaced} is not set")
console.log("no token found for", user.id);
errors: { password: "Password is too short" }
"apiKeyPlaceholder": "Enter your API key"
t("auth.password.reset")
router.post("/token", issueToken)
from {ident}.tokens import {Title}Token
#include "token.h"
/* the token is refreshed {small} seconds before it expires */
# prose
Set the {NAME} environment variable before you start.
Pass the token in the Authorization header.
Cookie: <name>=<value>
The cookie name is {ident}_session.
API keys: see https://{host}{path}
The password for {user} has expired.
password: required
password: string, at least {small} characters
token: string (optional)
- `password` (string): {words}
- `{name}`: {words}
| `{name}` | string | {words} |
### Tokens
1. Create a token at https://{host}{path}
We never store passwords in plain text.
I lost my password, can you help?
The secret is in {file}.
Who has the password for {host}?
The token was revoked on {date}.
Pass: {small}, Fail: {small}
pass -> {ident}
Secret scanning found no secrets in {file}.
token expired at {date}
error: token: unexpected end of file
SyntaxError: Unexpected token '{' in JSON at position {num}
error: expected token `;`, found `{word}`
login failed for {user}: invalid password
sudo: a password is required
Permission denied (publickey,password).
{user}@{host}'s password:
fatal: could not read Password for 'https://{user}@{host}'
ssh-keygen -t ed25519 -C {user}@{host}
The password must be at least {small} characters long.
Please reset your password at https://{host}{path}.
A token is a unit of text; {num} tokens are about {num} words.
The secret to good software is simple code.
Use a bearer token instead of a password.
Authorization: required
Authorization: Bearer <token>
Authorization: Basic base64(user:password)
X-Api-Key: your-api-key
Set-Cookie is sent once per response.
The API key is stored in {path}.
Your password has been changed.
| {NAME} | {words} | yes |
| password | string | required |
* {name} - {words}
## Password policy
it fails with "invalid token" on line {small}
The key is to {words}.
PASS src/{file}
--- PASS: Test{Title} (0.{small}s)
PASSED tests/test_{word}.py::test_{name}
{small} passed, {small} failed
Passphrases should have {small} words.
unexpected token: {word}
Enter passphrase for key '{path}':
Username for 'https://{host}':
ssh -i {path} {user}@{host}
# ids, hashes, paths, dates
{hex64}  {file}
sha256:{hex64}
"integrity": "sha512-{b6486}=="
etag: "{hex32}"
"traceId":"{hex32}","spanId":"{hex16}"
"sessionId": "{uuid}"
"toolu_01{alnum22}"
resource/{uuid}/{ident}
/usr/lib/{word}/{file}
node_modules/.pnpm/{word}@{ver}/node_modules/{word}
image: {host}/{word}:{ver}@sha256:{hex64}
version = "{ver}"
{word} = { version = "{ver}", features = ["{word}"] }
{word}=={ver} --hash=sha256:{hex64}
resolved "https://{host}/{word}-{ver}.tgz#{hex40}"
Date: Mon, {small} Nov 2026 10:00:00 GMT
var n=t.{camel},r=e.token;
{ident}({camel}){throw {camel}}
e.cookie=t+"="+n
document.cookie.split("; ")
cookies.get("{ident}")
SESSION_COOKIE_SECURE = True
secretName: {slug}
secretKeyRef: { name: {slug}, key: {kebab} }
imagePullSecrets:⏎  - name: {slug}
serviceAccountName: {slug}
automountServiceAccountToken: false
credentialsId: '{slug}'
secrets: inherit
secrets:⏎  - {name}
resource "aws_secretsmanager_secret" "{ident}" {
data.aws_secretsmanager_secret.{ident}.arn
password = random_password.{ident}.result
password = data.vault_generic_secret.{ident}.data["password"]
{name} = local.{name}
sensitive = true
auth: oauth2
auth_type: password
authentication: password
password_encryption = scram-sha-256
credentials: 'same-origin'
"credentials": "omit"
token_endpoint: https://{host}/oauth/token
grant_type=authorization_code
response_type=token
token-ring = 1*tchar
auth-param = token BWS "=" BWS ( token / quoted-string )
credentials = auth-scheme [ 1*SP ( token68 / #auth-param ) ]
password hash: $ALGO
{user}:x:{num}:{num}::/home/{user}:/bin/bash
private_key_bits = {num}
signature: ({camel}: string) => void
"signature": "def {name}({ident})"
csrf_token()
{% csrf_token %}
<%= csrf_meta_tags %>
GET /token?{ident}={num} HTTP/1.1
POST /oauth/token 200 {small}ms
10:00:0{digit1} INFO token refreshed for user {num}
{date} WARN password check took {num} ms
$ pass show {word}/{word}
apt install libpam-passwdqc
password: ********
password: <redacted>
password=[hidden]
token: ...
api_key: xxxxxxxx
{NAME}=
{NAME}=""
{name}: null
{name}: ""
"{camel}": true
id: {uuid}
request_id={hex32}
"sha": "{hex40}",
commit {hex40}
If-None-Match: W/"{hex16}"
x-request-id: {uuid}
"parentUuid":"{uuid}","uuid":"{uuid}"
call_{alnum24}
msg_01{alnum22}
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA{b6443} {user}@{host}
SHA256:{b6443} {user}@{host} (ED25519)
-----BEGIN CERTIFICATE-----⏎{b6464}⏎{b6464}⏎-----END CERTIFICATE-----
-----BEGIN PUBLIC KEY-----⏎{b6464}⏎-----END PUBLIC KEY-----
"public_key": "{b6443}="
ssh_public_key: ssh-rsa AAAAB3NzaC1yc2E{b6480}
publishableKey: "pk_test_{alnum24}"
data:image/png;base64,{b6480}
background: #{hex6};
e="{alnum8}",t=function(e,n){return e.{ident}}
{camel}:function(e){return e.{camel}}
o.password=function(e){this.p=e}
cookie_name = "{ident}"
sessionCookieName: "{ident}"
secret_name: {slug}
  secretKeyRef:⏎    name: {slug}⏎    key: {kebab}
existingSecret: {slug}
kind: Secret⏎metadata:⏎  name: {slug}
type: kubernetes.io/service-account-token
arn:aws:secretsmanager:us-east-1:{digit12}:secret:{slug}
password = var.{name}
auth: required
PasswordAuthentication no
credentials: include
"token_type": "bearer"
scope=read:{word}
password = *VCHAR ; any
{user}:*:{num}:0:99999:7:::
key_len={num}
signature = inspect.signature({ident})
salt = os.urandom(16)
nonce = uuid4()
{{ csrf_field() }}
secret santa list for {date}
GET /login HTTP/1.1
$ passwd {user}
passwd: password updated successfully
chmod 600 ~/.pgpass
cat ~/.netrc
"{camel}": null
{NAME}=changeme
{NAME}=<your {spaced}>
{NAME}=your-{kebab}-here
# code
{camel} = useSelector(select{Title});
const {camel} = localStorage.getItem("{camel}");
localStorage.removeItem("token");
sessionStorage.setItem("token", {camel});
setCookie("token", token, { path: "/" });
res.cookie("sid", req.session.id)
response.delete_cookie("{ident}")
cookies.set(COOKIE_NAME, value)
{name} = keyring.get_password("{slug}", {user})
{name} = vault.read("secret/{word}")["data"]["{name}"]
{name} = boto3.client("secretsmanager").get_secret_value(SecretId="{slug}")
{name} = Path("{path}").read_text().strip()
{name} = open("{path}").read()
{name}: str = Depends(get_{name})
{name}: SecretStr
{name}: Secret[str] = field(repr=False)
{name} = environ.Env()("{NAME}")
{name} = config("{NAME}", default="")
{name} = cfg.get("auth", "{name}")
{name} = click.prompt("{spaced}", hide_input=True)
{name} = self._{name} or {name}
{name} = f"{{word}}-{{ident}}"
{name} = {word}.{name}.strip()
{name} += chunk
{name}s = []
{name}_hash = make_hash({name})
if {name} == expected_{name}:
if len({name}) < {small}:
if {camel}.length < {small} {
if {camel}.isEmpty() {
if strings.TrimSpace({camel}) == "" {
return fmt.Errorf("{spaced} is empty")
return errors.New("missing {spaced}")
log.Printf("no {spaced} configured")
var {camel} string
var {Title} = flag.String("{kebab}", "", "{spaced} to use")
{camel}, err := {word}.{Title}(ctx)
{camel} := os.Getenv("{NAME}")
{camel} := r.Header.Get("{Title}")
{camel} := cmd.String("{kebab}")
let {name} = env::var("{NAME}")?;
let {name} = args.{name}.clone();
let {camel} = try await {word}.{ident}()
pub {name}: String,
pub fn {name}(mut self, {name}: impl Into<String>) -> Self {
impl {Title} for Token {
enum Token { Ident, Number, Comma }
Token::Number(n) => n,
match token { Some(t) => t, None => return }
string {camel} = Configuration["{Title}"];
string {camel} = Environment.GetEnvironmentVariable("{NAME}");
String {camel} = System.getenv("{NAME}");
String {camel} = request.getParameter("{camel}");
@Column(name = "{name}", length = {small})
@JsonProperty("{name}") private String {camel};
@Input() {camel}: string;
private {camel}: BehaviorSubject<string>;
this.{camel}$ = new Subject<string>();
v-model="{camel}"
:{camel}="{camel}"
{camel}={state.{camel}}
<PasswordInput value={password} onChange={setPassword} />
<TextField label="Password" type="password" />
<input type="password" name="{name}" value="{{ old('password') }}">
{errors.password && <p>{errors.password.message}</p>}
validates :password, presence: true, length: { minimum: {small} }
has_secure_password
attr_accessor :{name}
params.require(:user).permit(:email, :password)
${camel} = $request->input('{camel}');
${name} = $_POST['{name}'];
'{name}' => 'required|string|min:8',
'{name}' => env('{NAME}'),
"{name}": os.environ["{NAME}"],
"{camel}": "string",
"{camel}": {"type": "string", "format": "password"}
{camel}: { type: "string", minLength: {small} }
        {name}:⏎          type: string⏎          description: {words}
- name: {name}⏎  in: query⏎  required: true
securitySchemes:⏎  apiKey:⏎    type: apiKey⏎    in: header⏎    name: X-API-Key
variable "{name}" {⏎  type      = string⏎  sensitive = true⏎}
output "{name}" { value = aws_{ident}.{word}.{ident} }
{name} = aws_ssm_parameter.{ident}.value
{name}: "{{ vault_{name} }}"
{name}: "%env({NAME})%"
{dotted}=${{NAME}}
{dotted}=@{name}@
{dotted}=${{NAME}:}
password_file = {path}
passwordCommand: pass show {word}
token_path: {path}
secret_path = secret/data/{word}
keyfile = {path}
ssl_key = <{path}
private_key_path: {path}
credential_process = {path} --json
credential.helper=store
cookie_secure = true
cookie_samesite = lax
cookie: { maxAge: {num}, httpOnly: true }
tokenLifetime: {num}
access_token_ttl = 3600
refresh_token_rotation: true
password_min_length: {small}
password_reset_timeout = {num}
max_password_attempts={small}
token_budget: {num}
"cache_creation_input_tokens": {num},
"tokens": {"input": {num}, "output": {num}}
tokens/s: {small}.{small}
n_tokens = {num}
tokenizer = AutoTokenizer.from_pretrained("{slug}")
tokenizer.pad_token = tokenizer.eos_token
num_tokens_from_string("{words}")
sorted(tokens, key=len)
max(xs, key=lambda t: t.{ident})
dict.get(key)
for key, value in {ident}.items():
{ident}[key] = value
case 'key': return {ident};
e.key === "Enter"
onKeyDown={(e) => e.key === "Escape" && close()}
"key": "{ident}",
"sort_key": "{ident}"
key = "{ident}"
primaryKey: "{ident}"
"keys": ["{ident}", "{ident}"]
t=e.apiKey,n=e.token;return t||n
e.password.length>{small}?a():b()
{key:"password",value:function(){return this._p}}
n.secret=r,n.token=i
"use strict";var token=null;
# output and prose
{date} 10:00:00 [info] password for {user} changed
{date}T10:00:00Z auth: token valid, {small} minutes left
warning: unused variable: `{name}`
error[E0425]: cannot find value `{name}` in this scope
NameError: name '{name}' is not defined
TypeError: Cannot read properties of undefined (reading '{camel}')
AttributeError: 'NoneType' object has no attribute '{name}'
KeyError: '{NAME}'
Environment variable {NAME} is not set
missing required option: --{kebab}
  --{kebab} string   {words}
      --{kebab} <{name}>  {words} [env: {NAME}]
  -p, --password         prompt for a password
usage: tool [--{kebab} {NAME}] [--verbose]
Usage: {word} login [OPTIONS] USERNAME PASSWORD
  {NAME}    {words}
* `{NAME}`: {words}.
- {NAME} ({words})
| `--{kebab}` | {words} |
| {name} | varchar | {words} |
+------+----------+⏎| user | password |⏎+------+----------+
Adds {spaced} rotation to {ident}
fix: do not log the {spaced} ({num})
Bump {word} from {ver} to {ver}
Rotate the {spaced} every {small} days.
The {spaced} is read from {path}.
The {spaced} comes from the {NAME} variable.
Never commit your {spaced} to the repository.
The token endpoint returns a JSON object.
Each token is {small} bytes on average.
This key is used to sort the list.
The key for each entry is its {word}.
What is the password policy of {host}?
I forgot my password again.
Change the password in the settings.
It asks for a password, and then fails.
The password was wrong {small} times.
My token expired yesterday.
Your token has {small} permissions.
The secret was deleted on {date}.
secret: see {file}
password - {words}
Password strength: strong
Password: (hidden)
Password: [not shown]
Password for '{host}':
token: <paste here>
Bearer authentication is required
bearer of bad news
WWW-Authenticate: Bearer realm="{host}"
WWW-Authenticate: Basic realm="{word}"
Access-Control-Allow-Headers: Authorization, Content-Type
Vary: Cookie, Authorization
Cookie policy of {host}
Cookie: no
Authorization header is missing
Authorization: none
git log --author={user} --grep=token
grep -rn "password" {path}
grep -ri api_key src/ | wc -l
sed -i "s/password/passphrase/" {file}
git commit -m "Remove {spaced} from {file}"
git checkout -b feature/{slug}-token
cd /srv/{word} && make secrets
ls ~/.ssh/id_rsa
openssl rand -hex 32
openssl genrsa -out {path} 2048
pwgen -s {small} 1
docker secret ls
kubectl get secret {slug} -o yaml
kubectl create secret generic {slug} --from-file={path}
aws secretsmanager get-secret-value --secret-id {slug}
vault kv get secret/{word}
gh secret list
gh auth status
gh auth token
npm token list
passwd -l {user}
sudo -u {user} psql
su - {user}
ssh -p {num} {user}@{host}
scp -P 2222 {file} {user}@{host}:{path}
mkdir -p {path}
docker run -p 8080:80 -u {user} {word}
docker compose -p {word} up
cp -p {file} {path}
tar -xzpf {file}
mysql -h {host} -u {user} -p
psql -h {host} -p 5432 -U {user}
curl -u "${USER}:${PASS}" https://{host}
curl -H "X-Api-Key: ${API_KEY}" https://{host}
curl --cookie-jar {path} https://{host}
curl -b cookies.txt https://{host}
http://{host}:8080/login?next={path}
https://{host}/users/password/edit
https://{host}/docs/tokens#{slug}
s3://{word}/{path}
git@{host}:{word}/{word}.git
{user}@{host}:{path}
mailto:{user}@{host}
{uuid}.{word}.{host}
"uuid": "{uuid}", "token_type": "access"
"commit": "{hex40}", "tree": "{hex40}"
index {hex7}..{hex7} 100644
blob {hex40} {num}
{hex8}-{hex4} {word}
cid: {alnum22}
"id": "{alnum20}"
nodeId={alnum24}
fileKey: "{slug}"
checksum: {hex32}
md5: {hex32}
X-Trace: {hex32}
version: {ver}+{hex8}
{word}-{ver}-py3-none-any.whl
00:11:22:33:44:55 {word}
2001:db8::{hex4}
{num}.{num}.{num}
--color={word} --token-limit={num}
# others
password = models.CharField(_("password"), max_length=128)
password: Mapped[str] = mapped_column(String(60))
password = PasswordField("Password", validators=[DataRequired()])
password: yup.string().required("Password is required"),
password2 = request.POST["password2"]
password.encode("utf-8")
password = None
password: undefined
password == confirm_password
password !== confirmPassword
passwords_match = password == repeat
password_validators = [{"NAME": "{ident}"}]
AUTH_PASSWORD_VALIDATORS = []
PASSWORD_HASHERS = ["django.contrib.auth.hashers.{Title}"]
api_key = None
api_key: str = ""
apiKey: config.apiKey,
apiKey={apiKey}
const apiKey = useApiKey();
api_key = st.text_input("API key", type="password")
api_key_env_var="{NAME}"
"apiKeyHelper": "{path}"
secret = secrets.choice(words)
secret: bool = False
secret_scanning: enabled
secret_id = "{slug}"
secrets_dir = "{path}"
token = request.cookies.get("token")
token = jwt.encode(payload, settings.SECRET_KEY)
token = Token.objects.create(user=user)
token, _ = Token.objects.get_or_create(user=u)
token: Token | None = None
token?: CancellationToken,
tokens.append(token)
Token(type={ident}, value="{word}")
token.text == "{word}"
"token": null,
token_urlsafe(24)
csrf: false
nonce: {num}
salt_rounds = {small}
bcrypt.gensalt({small})
auth = ({ident}, {word})
auth=auth,
auth: auth,
"auth": "none"
authorize({ident})
@requires_auth
credentials = load_credentials()
credentials: Credentials = Depends(security)
new Credentials({ident}, {word})
ssh_key = {path}
ssh_keys: [{slug}]
"keyName": "{slug}"
key_id: {uuid}
kms_key_id = "{uuid}"
access_key_age: {small}
accessKeyId: process.env.AWS_ACCESS_KEY_ID
aws_secret_access_key = ${AWS_SECRET_ACCESS_KEY}
signing_key_path: {path}
private_key = "${path.module}/{file}"
encryption: AES256
encryptionKey: null
hmac.compare_digest(a, b)
signature: str
sig := ed25519.Sign(key, msg)
session_id = {uuid}
session: {hex8}
cookie: {ident}
cookie.split("=")
CookieJar()
password-store
password-protected
passwordless
pass_through = True
passed: {small}
bypass: false
compass: {word}
passing tests: {small}
passthrough: {ident}
passport.authenticate("{word}")
token bucket with {num} tokens
{num} tokens used
Tokens: {num} in, {num} out
tokens per second: {small}
Model: {slug}, max tokens: {num}
context window of {num} tokens
prompt_tokens: {num}
"max_output_tokens": {num}
stop_token_ids=[{num}, {num}]
secret={ident}.secret
The secret ingredient is {word}.
Keep it secret, keep it safe.
It is no secret that {words}.
The token is missing or invalid.
The token is {word} and cannot be used.
the password is correct
the password is wrong
the password is {word}
password was changed by {user}
Enter the password for {user}
Type your password and press Enter.
The password field must not be empty.
Choose a password with {small} characters.
Use a password manager.
The API key was rotated on {date}.
An API key is required for {host}.
See the API key section in {file}.
get an API key from https://{host}{path}
set the token in settings
Set token to an empty string.
Set password to null.
the key is {ident}
The key of the map: {ident}
key concepts: {words}
Answer key: {word}
public key: {hex64}
fingerprint: SHA256:{b6443}
sha1: {hex40}
Merge commit {hex40}
token: {hex8}… (truncated)
id_token: [Filtered]
password=%s
password=?
password=:password
password=$1
password=#{password}
password=@password
--password-file {path}
--password-stdin
--token-file={path}
--api-key-file {path}
--secret-id {slug}
--key {path}
--key-name {slug}
--auth-type basic
--login-path=local
--credentials {path}
-p {num}:{num}
-p {small}
-u root
-P {path}
login {user}
login to https://{host}
login: {user}
log in with your account
user: {user}
user/{word}
Username: {user}
{user}/{word}:{ver}
http://{host}:{num}/{word}
{ident}:{ident}@{ver}
"{word}": "^{ver}"
pkg:npm/{word}@{ver}
{word}@{host}
@{word}/{word}
export PATH={path}:$PATH
export EDITOR={word}
LANG=en_US.UTF-8
PWD={path}
OLDPWD={path}
SSH_AUTH_SOCK={path}
GPG_TTY=$(tty)
XAUTHORITY={path}
DBUS_SESSION_BUS_ADDRESS=unix:path={path}
COLORTERM=truecolor
"""
