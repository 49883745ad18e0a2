"""What only looks like a secret: one context a line, written as in `secret_contexts`, without marks.

`{ident}`, `{Type}`, `{word}`, `{words}`, `{slug}`, `{path}`, `{file}`, `{num}` are drawn innocent texts.
"""

CONTEXTS = r"""
# code: types and declarations
{name}: str
{name}: str | None = None
{camel}: string;
{camel}?: string;
{camel}: string | undefined
{name}: Optional[str] = None
{name}: &str,
{name} string `json:"{name}"`
{Title} string
private String {camel};
private readonly {camel}: {Type};
public string {Title} { get; set; }
def login({word}: str, {name}: str) -> {Type}:
func New({camel} string) *{Type} {
fn auth({name}: &str) -> Result<()> {
type {Type} = { {camel}: string; {ident}?: number };
interface {Type} { {camel}: string }
{name} = models.CharField(max_length=128)
{name}: SecretStr = Field(...)
{name} VARCHAR(255) NOT NULL,
"{name}" text NOT NULL
ALTER TABLE users ADD COLUMN {name} text;
class {Title}Error(Exception): pass
enum {Type} { {NAME}, OTHER }
# code: names, calls, lookups
{name} = {ident}
{name} = {ident}.{ident}
{name} = get_{ident}()
{name} = {ident}.get("{word}")
{name} = {ident}["{word}"]
{name} = {ident}[0]
{camel} = await {ident}({ident})
const {camel} = {ident}.{ident};
const {camel} = use{Type}();
const {camel} = req.body.{camel};
const { {camel}, ...rest } = {ident};
const [{camel}, set{Title}] = useState('');
this.{camel} = {camel};
self.{name} = {name}
self.{name} = {ident}.{name}
{camel}: {ident}.{camel},
{camel}: {ident},
{camel},
{name}={name},
{name}={ident},
{ident}({name}={ident}, {ident}={num})
return { {camel}, {ident} }
if ({camel} !== {ident}) {
if not {name}:
if {name} is None: raise ValueError("{words}")
{camel} := {ident}.{Type}()
cfg.{Title} = os.Getenv("{NAME}")
{name} = os.environ["{NAME}"]
{name} = os.environ.get("{NAME}")
{name}=os.getenv("{NAME}"),
{camel}: process.env.{NAME},
{camel}: process.env.{NAME} ?? '',
const {camel} = process.env.{NAME};
let {name} = std::env::var("{NAME}")?;
{name} = ENV.fetch("{NAME}")
{name} = ENV["{NAME}"]
{camel} = System.getenv("{NAME}");
${name} = getenv('{NAME}');
${name} = $_POST['{name}'];
{name} = getpass.getpass("{words}: ")
{name} = input("Enter {spaced}: ")
{name} = secrets.token_hex(32)
{name} = hashlib.sha256({ident}).hexdigest()
{name} = base64.b64decode({ident})
{name} = "".join({ident})
{name} = f"{{ident}}"
print(f"{name}={{ident}}")
console.log(`{camel}: ${{ident}}`)
logger.info("{spaced} %s", {ident})
log.Printf("{name}=%s", {ident})
printf("{spaced}: %s\n", {ident});
set{Title}(event.target.value)
onChange={(e) => set{Title}(e.target.value)}
<Input {camel}={{ident}} />
validates :{name}, presence: true
expect({ident}.{camel}).toBe({ident})
assert {ident}.{name} == {ident}
export const select{Title} = (state) => state.{word}.{camel};
{name} = {ident} if {ident} else {ident}
{name} = None
{name} = ""
{camel} = null;
{camel}: undefined,
{camel}: false,
is{Title}: true,
has{Title}: false
isRawSecret:true
{a:1,isRawSecret:!0,{camel}:{word}.{word}}
function {word}(e,t){return e.{camel}=t.{camel},e}
var {word}=e.{camel},n=t("{slug}");
document.cookie="{word}="+e+";path=/"
Authorization:"Bearer ".concat({word})
Authorization: getAuthHeader(),
Authorization: `Bearer ${{ident}}`,
Authorization: "Bearer " + {ident}
headers: { Authorization: {ident} },
'Authorization': 'Bearer ' + {ident},
"Authorization": f"Bearer {{ident}}"
req.Header.Set("Authorization", "Bearer "+{ident})
headers["Authorization"] = {ident}
Authorization: {Type}.from({ident})
case "{kebab}": return {ident};
case '{name}':
{ident}.addEventListener("{slug}", {ident})
from app.auth import {ident}, {name}
import { {camel} } from './{word}';
{name}_hash = bcrypt.hash({ident}, {small})
{name}_url = "https://{host}/oauth/{word}"
{name}_file = "{path}/{file}"
{name}_path: {path}/{file}
{name}_length = {num}
{name}_count: {num}
{name}_id = {num}
{name}_name = "{slug}"
{name}_expires_in: {num}
{name}_ttl={num}
max_{name}s = {num}
num_{name}s: {num}
{camel}Length: {num},
{camel}Type: "{word}",
{camel}Name: '{slug}',
{camel}Expiry = "{date}"
token_type: bearer
"token_type": "Bearer",
tokenizer = {Type}.from_pretrained("{slug}")
"eos_token": "</s>",
pad_token="<pad>",
{ token: "keyword.operator", regex: /[a-z]+/ },
foreach ($tokens as $token) {
for token in tokens:
tokens = text.split()
token = tokens.pop()
token = self.next_token()
key = "{ident}"
key: "{slug}"
"key": "{ident}"
primary_key=True
"primaryKey": "{ident}",
partition_key = "{slug}"
cache_key = f"{word}:{{ident}}"
sort_key: {ident}
foreign_key: {word}_id
keyboard = "{slug}"
keyof typeof {ident}
secretName: {slug}
secretKeyRef:⏎  name: {slug}⏎  key: {kebab}
existingSecret: {slug}
secret_name = "{slug}"
secret_id = "{slug}"
type: kubernetes.io/service-account-token
kubectl get secret {slug} -o yaml
resource "random_password" "{word}" { length = {small} }
password = random_password.{word}.result
{name} = var.{name}
{name} = data.{word}.{word}.value
{name} = module.{word}.{name}
variable "{name}" { type = string }
output "{name}" { value = module.{word}.{ident} }
credentials: "include",
credentials: 'same-origin'
# references and placeholders
{NAME}=${NAME}
{NAME}=${{NAME}}
{NAME}="${{NAME}}"
{NAME}=$(cat {path})
{NAME}=`pass show {word}`
{NAME}=%{NAME}%
{name}: ${{{NAME}}}
{name}: ${{ secrets.{NAME} }}
{name}: "{{ {name} }}"
{name}: {{ .Values.{camel} }}
{name}: !vault |
{name}: !Ref {Type}
{name}: <{name}>
{name}: <your-{kebab}>
{name}: "<YOUR_{NAME}>"
"{name}": "<{kebab}>"
"{camel}": "${{NAME}}"
"{name}": "your-{kebab}-here"
"{name}": "YOUR_{NAME}"
{NAME}=your_{name}_here
{NAME}=<{name}>
{NAME}=changeme
{NAME}=
{NAME}=""
{NAME}=xxxxxxxx
{name}: ********
"{name}": "***"
"{name}": "[REDACTED]"
{name}: [REDACTED]
"{name}": null,
"{name}": "",
"{name}": true,
{name}: ~
{name}: ""
"{name}": {"type": "string"}
"{name}": ["{word}", "{word}"]
"{camel}": {"type": "string", "description": "{words}"}
Authorization: Bearer <token>
Authorization: Bearer $TOKEN
Authorization: Bearer ${{NAME}}
curl -H "Authorization: Bearer $TOKEN" https://{host}
curl -u "$USER:$PASS" https://{host}
curl -u {user} https://{host}
postgres://{user}:${{NAME}}@{host}/app
postgres://{user}:<password>@{host}/app
postgres://{user}:$PASS@{host}/app
https://{user}:***@{host}/
postgres://{user}@{host}:5432/app
mysql -u root -p app
mysql -u root -p$MYSQL_PWD app
sshpass -p "$PASS" ssh {host}
app --{kebab} "$TOKEN"
app --{kebab}=${NAME}
app --{kebab} <{kebab}>
app --{kebab}-file {path}
docker run -e {NAME} app
docker run -p 8080:80 {word}
docker run -v {path}:{path} {word}
mkdir -p {path}
ssh -p 2222 {user}@{host}
rsync -avz -e "ssh -p 2222" . {user}@{host}:{path}
echo "$PASS" | sudo -S true
gh secret set {NAME} < {file}
gh secret list
kubectl create secret generic {word} --from-file={path}
openssl rsa -passin env:PASS -in k.pem
keytool -list -keystore k.jks
net use Z: \\srv\share
vault kv get secret/{word}
aws configure list
echo "{words}" | tee {file}
# ids, digests, versions
commit {hex40}
Merge {hex40} into {hex40}
index {hex7}..{hex7} 100644
sha256:{hex64}
image: {word}@sha256:{hex64}
"integrity": "sha512-{b6486}=="
--hash=sha256:{hex64}
checksum = "{hex64}"
md5 {hex32}  {file}
{hex64}  {file}
id: {uuid}
"id": "{uuid}",
"user_id": "{uuid}", "session": {num}
session {uuid} resumed
trace_id={hex32} span_id={hex16}
X-Request-Id: {uuid}
ETag: "{hex32}"
"etag": "{hex40}"
h1:{b6443}=
"_resolved": "https://{host}/a/-/a-{ver}.tgz#{hex40}"
resolved "https://{host}/a/-/a-{ver}.tgz#{hex40}"
toolu_{alnum24} msg_{alnum24} call_{alnum24}
0x{hex40}
color: #{hex6};
background: url(data:image/png;base64,{b6480});
<img src="data:image/png;base64,{b64120}==">
-----BEGIN CERTIFICATE-----⏎{b6464}⏎{b6464}⏎{b6440}⏎-----END CERTIFICATE-----
-----BEGIN PUBLIC KEY-----⏎{b6464}⏎{b6464}⏎-----END PUBLIC KEY-----
certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t{b64400}==
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{b6443} {user}@{host}
ssh-rsa AAAAB3NzaC1yc2E{b64300} {user}@{host}
pk_live_{alnum24}
"publicKey": "{b6443}="
PublicKey = {b6443}=
publicKeyToken="{hex16}"
"devDependencies": { "{slug}": "^{ver}", "cookie": "^{ver}" }
"jsonwebtoken": "^{ver}",
{slug}@{ver}
"version": "{ver}"
{date}T03:04:05.678Z
claude-opus-4-6 and gpt-4o-mini-2024-07-18
/srv/{word}/secret-{slug}.md
src/auth/token.py:{small}: error: missing type
tests/test_token.py::test_{ident} PASSED
{file}:{small}:{small}: error: {words}
src/{file}:{num}:{word}:{word}:{word}
{word}:{num}:{word}
arn:aws:secretsmanager:eu-west-1:123456789012:secret:{word}/{slug}
s3://{word}/secret/{file}
C:\Users\{user}\secrets\{file}
GIT_SHA={hex40}⏎PATH=/usr/local/bin:/usr/bin⏎LANG=en_US.UTF-8⏎HOME=/root
PWD=/home/{user}/{word}
OLDPWD={path}
input_tokens: {num}, output_tokens: {num}
"total_tokens": {num},
max_tokens={num}
tokens used: {num}
# prose and logs
the {spaced} is stored in the keychain
The {spaced} is refreshed every hour
The {spaced} was rotated yesterday
the {spaced} is required
Your {spaced} is invalid
your {spaced} has expired
Invalid {spaced}: must be at least {small} characters
{spaced} reset flow
error: invalid {spaced}
{Title}: missing
{spaced}: expired
{spaced}: not set
Missing {spaced}: set {NAME} first
Set {NAME} before running.
export {NAME} before you start
I changed the {spaced} handling so that it {words}.
Next: rotate the {spaced} and update {file}.
Use --{kebab} to set it, or --{word} for CI.
usage: app [--{kebab} {NAME}] [--{word} {NAME}]
  --{kebab} string   {words}
  -p, --{kebab}      {words}
      --{kebab} TEXT  {words}  [required]
| {name} | string | yes | {words} |
| `{name}` | {words} |
- `{name}` (string): {words}
* **{name}** - {words}
## {Title}
<label for="{name}">{Title}</label>
<input type="password" name="{name}" placeholder="{spaced}">
<li><a href="#{kebab}">{Title}</a></li>
.{kebab} { color: red; }
#{kebab} > li { margin: 0 }
"{name}": "{Title}",
"{camel}": "{spaced}",
"{name}_label": "Enter your {spaced}",
"{name}": "Enter your {spaced}"
"{camel}Required": "Please enter a {spaced}",
{name}: 'Passwort eingeben'
bearer of {words}
Bearer authentication is required
WWW-Authenticate: Bearer realm="{word}", error="invalid_token"
Basic authentication failed
Cookie: none
Cookie policy: {words}
This site uses cookies: see the {word}.
Access-Control-Allow-Headers: Authorization, Content-Type, X-Api-Key
Vary: Cookie, Authorization
Access denied for user '{user}'@'localhost' (using password: YES)
passwd: password updated successfully
Changing password for {user}.
New password: Retype new password:
PasswordAuthentication no
PermitRootLogin prohibit-password
ssl_certificate_key {path}/{file};
private_key_path = "{path}/{file}"
key_file: ~/.ssh/id_ed25519
identity_file={path}/id_rsa
grep -rn "{name}" src/ | head
git log --grep={name} --oneline
rg '{name}' -i
sed -i 's/{name}/{ident}/' {file}
AssertionError: assert '{name}' in {'{word}': '{word}'}
KeyError: '{name}'
  File "app/{file}", line {small}, in get_{name}
warning: unused variable: `{name}`
✓ resets the {spaced} ({small} ms)
PASS src/{name}.test.ts ({small} s)
Rate limit: {num} tokens per minute
token: expired
secret: not found
signature: valid
SELECT id, {name} FROM users WHERE id = $1
UPDATE users SET {name} = ? WHERE id = ?
WHERE {name} = :{name}
token = 1*tchar
credentials = auth-scheme [ 1*SP ( token68 / #auth-param ) ]
Authorization = credentials
cookie-string = cookie-pair *( ";" SP cookie-pair )
auth-param = token BWS "=" BWS ( token / quoted-string )
token68 = 1*( ALPHA / DIGIT / "-" / "." ) *"="
name,{word},{word}⏎{word},{word},{num}
id,{word},status⏎{num},{word},{word}
| {word} | {word} |⏎|---|---|⏎| {word} | {slug} |
| token | meaning |⏎|---|---|⏎| {word} | {words} |
{word}, {word}, {name}⏎{word}, {word}
The codes: {num}, {num} and {num}
Recovery: {words}
exit code: {small}
Error code: {hex8}
status code: {num}
postal code: {num}
zip code {num}
{words}. {words}, {words}.
{word} login {word} {word}
login failed for {user}
password protected {words}
token bucket {words}
secret santa {words}
key {words}
"scripts": { "token": "node scripts/token.js" }
permissions: { id-token: write }
secrets: inherit
- run: npm run {slug}
uses: actions/checkout@v4
with: { token: "${{ github.token }}" }
cache-key: v1-deps-{hex64}
git@github.com:{word}/{word}.git
mailto:{user}@{host}
https://{host}:8443/@{word}/{word}
https://{host}/users/{user}@{host}
npm install @types/{word}@{ver}
http://localhost:3000/{word}?page={small}&sort={ident}
https://{host}/search?q={word}+token&key={ident}
# more code
Authorization:e?"Bearer "+e:null
Authorization:t.{camel}?"Bearer ".concat(t.{camel}):""
authorization:n.headers.authorization||void 0
headers:{Authorization:e,cookie:t}
cookie:e.cookie,{camel}:e.{camel}
cookie:!0,{camel}:void 0
e.cookie=t+"="+n+"; path=/"
t.cookie="{word}="+encodeURIComponent(e)
setCookie("{word}","",{num})
cookies.get("{word}")
res.clearCookie("{word}")
r.{camel}=e.{camel}||null
this.{camel}=void 0
{camel}:null==e?void 0:e.{camel}
{camel}:{ident}(e),{ident}:!1
{camel}(){return this._{camel}}
get {camel}(){return this.{ident}}
{camel}=>{ident}.{ident}({camel})
async {camel}({ident}) {
{camel}: async () => {ident},
{camel}: ({ident}) => {ident},
{camel}: {Type}[];
{camel}: Map<string, {Type}>;
{camel}: Record<string, string>
{camel}: keyof {Type}
{camel}: typeof {ident}
{camel}: {Type} | null,
{camel}: {Type};
{name}: {Type} = {Type}()
{name}: list[{Type}]
{name}: int = {num}
{name}: bool = False
{Title} *{Type}
{Title} []byte
{name}: u64,
{name}: {ident}::{Type},
val {camel}: {Type}
val {camel} = {ident}.{ident}
lateinit var {camel}: {Type}
guard let {camel} = {ident} else { return }
if let Some({name}) = {ident} {
@{name} ||= {ident}
{name} = @{ident}
{name} = {ident}&.{ident}
{name} = {ident}.map(&:{ident})
{name} = %w[{word} {word}]
{name} = {ident}!
${name} = ${ident}->{ident};
${name} = ${ident}['{word}'] ?? null;
my ${name} = shift;
local {name} = {ident}.{ident}
{name} <- {ident}({ident})
{name} = {ident}->{ident};
{name} = ({Type} *){ident};
{name} = nullptr;
free({name});
memset({name}, 0, sizeof({name}));
strcmp({name}, {ident}) == 0
#define {NAME} {num}
#ifdef {NAME}
const {NAME} = Symbol('{word}');
const {NAME} = '{name}';
{NAME}: '{name}',
{NAME} = "{kebab}"
{NAME} = auto()
{NAME} = 'X-{Title}'
{Title} = "{name}"
"{name}" => {ident},
"{name}" in {ident}
'{name}', '{ident}', '{ident}'
["{name}", "{ident}", "{ident}"]
("{name}", "{ident}")
{"{name}": {ident}}
{"{name}": {ident}.{ident}, "{ident}": {num}}
{ident}.set("{name}", {ident})
{ident}.append("{name}", {ident}.{ident})
formData.append('{name}', {ident})
{ident}.setItem('{camel}', {ident})
{ident}.getItem('{camel}')
{ident}.getByLabelText('{spaced}')
find_by_id("{kebab}")
$("#{kebab}").val()
document.querySelector("[name={name}]")
logger.debug("{camel}: {}", {ident})
fmt.Errorf("{spaced}: %w", err)
errors.New("{spaced} is empty")
describe('{camel}', () => {
test("{spaced} {words}", async () => {
'{name}': '{spaced}',
{name}="{name}"
# more prose and logs
{spaced}: yes
{spaced} ({word}): {words}
Missing {spaced}.
{date} INFO {word}: {spaced} accepted for {user}
{date} WARN {ident} - {spaced} rejected: {words}
[{word}] {camel} updated ({num} ms)
{user} requested a new {spaced} at {date}
see {name} in {file}
{file}: {name} is unused
{name} → {ident}
rename {name} to {ident}
s/{name}/{ident}/g
key is {word}
the key is the {word}
my key {word} is {words}
The password must contain {small} letters
password length {small}
token limit reached: {num}
{num} tokens left
context: {num} tokens
pass `{ident}={ident}` to {words}
Pass :{word}:`{ident}` a value
"""
