"""Further places of secrets, written as in `secret_contexts`: four blind sets that were looked at afterwards."""

CONTEXTS = r"""
# others
POSTGRES_PASSWORD_FILE=/run/x⏎POSTGRES_PASSWORD=⟦{line}⟧
requirepass "⟦{any}⟧"
masteruser repl⏎masterauth ⟦{shell}⟧
GRANT ALL ON app.* TO {user}@'%' IDENTIFIED BY '⟦{line}⟧' WITH GRANT OPTION;
SET PASSWORD FOR {user} = '⟦{strong}⟧';
CREATE DATABASE LINK remote CONNECT TO {user} IDENTIFIED BY "⟦{line}⟧" USING 'db';
db.createUser({user: "{user}", pwd: "⟦{any}⟧", roles: []})
mongosh "mongodb://{user}:⟦{strong}⟧@{host}/admin"
kafka.sasl.jaas.config=org.apache.kafka.plain.PlainLoginModule required username="{user}" password="⟦{line}⟧";
sasl.password=⟦{line}⟧
hazelcast:⏎  cluster:⏎    password: ⟦{line}⟧
xpack.security.transport.ssl.keystore.secure_password: ⟦{line}⟧
clickhouse-client --host {host} --password ⟦{shell}⟧ --query "SELECT 1"
<users><default><password>⟦{line}⟧</password></default></users>
snowsql -a acme -u {user} --private-key-passphrase ⟦{shell}⟧
PGPASSWORD="⟦{line}⟧" pg_dump -h {host} app
export MYSQL_PWD=⟦{shell}⟧
impala-shell -l -u {user} --ldap_password_cmd="echo -n ⟦{shell}⟧"
beeline -u jdbc:hive2://{host}:10000 -n {user} -p ⟦{shell}⟧
expdp {user}/⟦{shell}⟧@orcl schemas=app
jdbc:postgresql://{host}/app?user={user}&password=⟦{shell}⟧
Driver={ODBC Driver 18};Server={host};UID={user};PWD=⟦{shell}⟧;
DSN={user}:⟦{strong}⟧@tcp({host}:3306)/app?parseTime=true
*:5432:app:{user}:⟦{line}⟧
{host}:5433:*:{user}:⟦{strong}⟧
user {user} on >⟦{strong}⟧ ~* +@all
ALTER ROLE {user} PASSWORD '⟦{line}⟧';
CREATE USER '{user}'@'%' IDENTIFIED WITH mysql_native_password BY '⟦{line}⟧';
ALTER LOGIN {user} WITH PASSWORD = '⟦{line}⟧' OLD_PASSWORD = '⟦{line}⟧';
[influxdb]⏎  token = "⟦{any}⟧"⏎  org = "{word}"
sasl.mechanism=PLAIN⏎sasl.username={user}⏎sasl.password=⟦{line}⟧
rabbitmqctl add_user {user} '⟦{line}⟧'
default_pass = ⟦{strong}⟧
cassandra.password=⟦{line}⟧
neo4j-admin dbms set-initial-password ⟦{strong}⟧
NEO4J_AUTH=⟦{user}/{strong}⟧
ELASTIC_PASSWORD=⟦{line}⟧
bq --service_account_credential_file x --api_key ⟦{strong}⟧
psql "host={host} user={user} password=⟦{shell}⟧ dbname=app"
mysql --user={user} --password='⟦{line}⟧' app < dump.sql
sqlplus {user}/⟦{shell}⟧@//{host}:1521/XE
jdbc:sqlserver://{host}:1433;databaseName=app;user={user};password=⟦{shell}⟧;encrypt=true
jdbc:oracle:thin:{user}/⟦{shell}⟧@{host}:1521:orcl
AMQP_URL=amqps://{user}:⟦{strong}⟧@{host}/vhost
redis://:⟦{strong}⟧@{host}:6379/0
rediss://default:⟦{strong}⟧@{host}:6380
password_hash_key = "⟦{any}⟧"
DJANGO_SUPERUSER_PASSWORD=⟦{line}⟧
FLASK_SECRET_KEY="⟦{any}⟧"
export GITLAB_TOKEN=⟦glpat-{alnum20}⟧
OPENAI_API_KEY: ⟦sk-proj-{alnum48}⟧
HF_TOKEN=⟦hf_{alnum34}⟧
SLACK_SIGNING_SECRET=⟦{hex32}⟧
STRIPE_WEBHOOK_SECRET=⟦whsec_{alnum32}⟧
GOOGLE_CLIENT_SECRET="⟦GOCSPX-{alnum28}⟧"
DB_PASSWORD = '⟦{line}⟧'
db.password: ⟦{line}⟧
db.default.password="⟦{any}⟧"
couchdb_password: "⟦{any}⟧"
"ConnectionString": "mongodb://{user}:⟦{strong}⟧@{host}:27017"
"connectionString": "Data Source={host};User ID={user};Password=⟦{shell}⟧"
CELERY_BROKER_URL=redis://:⟦{strong}⟧@{host}:6379/1
SQLALCHEMY_DATABASE_URI = 'mysql+pymysql://{user}:⟦{strong}⟧@{host}/a'
MONGO_INITDB_ROOT_PASSWORD: ⟦{line}⟧
MARIADB_ROOT_PASSWORD=⟦{line}⟧
RABBITMQ_DEFAULT_PASS=⟦{line}⟧
ACTIVEMQ_PASSWORD="⟦{line}⟧"
sentinel auth-pass mymaster ⟦{strong}⟧
hba: password "⟦{any}⟧"
PASSWORD="⟦{line}⟧" docker-compose up -d
"registry-password": "⟦{any}⟧"
"webhookSecret": "⟦{any}⟧",
webhook_secret: '⟦{any}⟧'
app_secret=⟦{line}⟧
consumer_secret = "⟦{any}⟧"
twitter: { consumer_secret: "⟦{any}⟧", access_token_secret: "⟦{any}⟧" }
"refreshToken" : "⟦{any}⟧"
idToken: '⟦{jwt}⟧'
x-csrf-token: ⟦{strong}⟧
X-Api-Token: ⟦{strong}⟧
X-GitLab-Token: ⟦{strong}⟧
Authorization: ⟦ApiKey {b6440}⟧
Authorization: Digest ⟦username="{user}", response="{hex32}"⟧
authorization=⟦Bearer%20{strong}⟧
{"headers":{"authorization":"Bearer ⟦{strong}⟧","accept":"*/*"}}
{"headers":[["x-api-key","⟦{strong}⟧"]]}
"set-cookie": ["⟦sid={strong}; Path=/⟧"]
Cookie: ⟦csrftoken={strong}; sessionid={strong}⟧
-b 'sessionid=⟦{strong}⟧'
document.cookie = "⟦token={strong}⟧"
page.context().addCookies([{ name: 'sid', value: '⟦{strong}⟧', url }])
https://{host}/login?user={user}&password=⟦{shell}⟧
https://{host}/hook?secret=⟦{strong}⟧
https://{host}/dl?X-Amz-Credential=⟦AKIA{upper16}⟧%2F20260101&X-Amz-Signature=⟦{hex64}⟧
ftp://{user}:⟦{shell}⟧@{host}/pub
smtp://{user}:⟦{strong}⟧@{host}:587
ldap://cn=admin:⟦{strong}⟧@{host}
socks5://{user}:⟦{shell}⟧@{host}:1080
http_proxy=http://{user}:⟦{shell}⟧@{host}:3128
git+https://⟦{strong}⟧:x-oauth-basic@github.com/a/b
ssh://{user}:⟦{shell}⟧@{host}:22
docker login {host} -u {user} -p ⟦{shell}⟧
helm registry login {host} -u {user} -p ⟦{shell}⟧
skopeo copy --src-creds ⟦{user}:{shell}⟧ docker://a docker://b
buildah login -u {user} -p '⟦{line}⟧' {host}
crane auth login {host} -u {user} -p ⟦{shell}⟧
cosign sign --key env://K; export COSIGN_PASSWORD=⟦{shell}⟧
trivy image --username {user} --password ⟦{shell}⟧ a
az acr login -n a -u {user} -p ⟦{shell}⟧
az ad sp create-for-rbac # "password": "⟦{any}⟧"
aws configure set aws_session_token ⟦{b6480}⟧
aws_session_token = ⟦{b6480}⟧
aws ssm put-parameter --name /a/b --type SecureString --value '⟦{line}⟧'
gcloud iam service-accounts keys create; export GOOGLE_API_KEY=⟦AIza{alnum35}⟧
eksctl create cluster --ssh-access; PASSWORD=⟦{shell}⟧
ansible-vault encrypt_string '⟦{line}⟧' --name 'db_password'
vault_db_password: "⟦{any}⟧"
become_password: ⟦{line}⟧
salt '*' shadow.set_password {user} '⟦{strong}⟧'
puppet: $admin_password = '⟦{line}⟧'
chef: node['db']['password'] = '⟦{line}⟧'
password_hash: "⟦$6${alnum8}${alnum86}⟧"
{user}:⟦$6${alnum8}${alnum86}⟧:19000:0:99999:7:::
{user}:⟦{SSHA}{alnum32}⟧
useradd -p '⟦$6${alnum8}${alnum40}⟧' {user}
usermod --password '⟦{strong}⟧' {user}
net user {user} "⟦{line}⟧"
dsadd user cn=a -pwd ⟦{shell}⟧
mstsc /v:{host} # password: ⟦{strong}⟧
xfreerdp /v:{host} /u:{user} /p:'⟦{line}⟧'
vncpasswd <<< "⟦{line}⟧"
x11vnc -passwd ⟦{shell}⟧
smbmap -u {user} -p '⟦{line}⟧' -H {host}
crackmapexec smb {host} -u {user} -p '⟦{line}⟧'
evil-winrm -i {host} -u {user} -p '⟦{line}⟧'
hydra -l {user} -p ⟦{shell}⟧ ssh://{host}
mysql -h {host} -u{user} -p'⟦{line}⟧' db
mysqldump --password=⟦{shell}⟧ --all-databases
pg_dump postgresql://{user}:⟦{strong}⟧@{host}/a
psql postgres://{user}:⟦{strong}⟧@{host}:5432/a -c "select 1"
influx config create --token ⟦{strong}⟧ -n a
clickhouse client --password='⟦{line}⟧'
redis-cli -u redis://:⟦{strong}⟧@{host}
mongo {host}/a -u {user} -p ⟦{shell}⟧
cypher-shell -u {user} -p ⟦{shell}⟧
kafkacat -X sasl.username={user} -X sasl.password=⟦{shell}⟧
gh api -H "Authorization: Bearer ⟦ghp_{alnum36}⟧" /user
GH_TOKEN=⟦ghp_{alnum36}⟧ gh pr list
npm publish --//registry.corp.example/:_authToken=⟦npm_{alnum36}⟧
yarn config set npmAuthToken ⟦{strong}⟧
cargo publish --token ⟦{strong}⟧
gem push a.gem --otp {digit6} --key ⟦{strong}⟧
dotnet nuget add source u -n n -u {user} -p ⟦{shell}⟧
mvn -Dpassword=⟦{shell}⟧ deploy
gradle publish -PossrhPassword=⟦{shell}⟧
sbt: credentials += Credentials("r", "{host}", "{user}", "⟦{any}⟧")
xcodebuild; security unlock-keychain -p '⟦{line}⟧' a.keychain
apksigner sign --ks k --ks-pass pass:⟦{shell}⟧ a.apk
zip --password ⟦{shell}⟧ a.zip b
7za a -p'⟦{line}⟧' a.7z b
pdftk a.pdf output b.pdf user_pw ⟦{shell}⟧
wpa_cli set_network 0 psk '⟦"{line}"⟧'
nmcli connection modify a wifi-sec.psk '⟦{line}⟧'
iwctl --passphrase ⟦{shell}⟧ station a connect b
conn = psycopg2.connect("dbname=a user={user} password='⟦{line}⟧'")
pymongo.MongoClient(host, username="{user}", password="⟦{any}⟧")
ldap.simple_bind_s("cn=admin", "⟦{line}⟧")
requests.get(u, headers={"X-Token": "⟦{strong}⟧"})
requests.post(u, data={"password": "⟦{any}⟧"})
session.headers.update({"Authorization": "Token ⟦{hex40}⟧"})
jwt.decode(t, key="⟦{strong}⟧")
ssh.connect("{host}", username="{user}", password='⟦{line}⟧')
{Title}: "⟦{any}⟧",
{camel}: `⟦{line}⟧`,
"{kebab}":"⟦{any}⟧"
{name}: '⟦{line}⟧'
{NAME}: '⟦{any}⟧'
{NAME}='⟦{line}⟧' \
--{kebab} '⟦{line}⟧'
--{kebab}=⟦{shell}⟧ --verbose
-D{dotted}=⟦{shell}⟧
self.assertEqual({name}, "⟦{strong}⟧")
setattr(self, "{name}", "⟦{strong}⟧")
config["{name}"] = "⟦{any}⟧"
config.set("auth", "{name}", "⟦{strong}⟧")
options.{Title} = "⟦{any}⟧";
System.out.println("{name}=⟦{strong}⟧");
with {name}="⟦{any}⟧":
<secret>⟦{line}⟧</secret>
<apiKey>⟦{strong}⟧</apiKey>
<prop key="{p.dotted}">⟦{line}⟧</prop>
data-api-key="⟦{strong}⟧"
hey, the staging password is ⟦{strong}⟧ – don't share it
ok use ⟦ghp_{alnum36}⟧ for the push
password for the vm: ⟦{strong}⟧
root password: ⟦{strong}⟧
my openai key is ⟦sk-proj-{alnum48}⟧
can you check why token ⟦{strong}⟧ is rejected?
credentials: username {user}, password ⟦{strong}⟧
Use username "{user}" and password "⟦{any}⟧"
The initial password for {user} is: ⟦{strong}⟧
Password set to: ⟦{strong}⟧
generated token = ⟦{strong}⟧
Client secret: ⟦{strong}⟧
Secret access key: ⟦{b6440}⟧
| password | ⟦{strong}⟧ |
Host: {host}⏎User: {user}⏎Pass: ⟦{line}⟧
# web frameworks
SECRET_KEY = '⟦django-insecure-{salt40}⟧'
app.config["SECRET_KEY"] = "⟦{any}⟧"
'secret' => env('APP_SECRET', '⟦{strong}⟧'),
APP_KEY=⟦base64:{b6443}=⟧
$wgSecretKey = "⟦{hex64}⟧";
$cfg['blowfish_secret'] = '⟦{strong}⟧';
$dbpass = "⟦{line}⟧";
$settings['hash_salt'] = '⟦{strong}⟧';
public $smtppass = '⟦{line}⟧';
VITE_API_KEY=⟦{strong}⟧
"Authentication": { "Google": { "ClientId": "{slug}", "ClientSecret": "⟦{any}⟧" } }
spring.security.oauth2.client.registration.okta.client-secret=⟦{line}⟧
management.metrics.export.datadog.api-key: ⟦{strong}⟧
play.http.secret.key="⟦{any}⟧"
Rails.application.credentials.secret_key_base = "⟦{hex64}⟧"
app.secret_key = b'⟦{line}⟧'
config.secret_key_base = '⟦{hex64}⟧'
define('AUTH_KEY',         '⟦{salt64}⟧');
define('NONCE_SALT', '⟦{salt64}⟧');
$db['default']['password'] = '⟦{line}⟧';
NEXTAUTH_SECRET="⟦{any}⟧"
NEXT_PRIVATE_API_TOKEN=⟦{line}⟧
session({ secret: '⟦{any}⟧', resave: false })
app.use(cookieParser("⟦{strong}⟧"))
passport.use(new GoogleStrategy({ clientID: '{num}.apps', clientSecret: '⟦{any}⟧' }))
services.AddAuthentication().AddGoogle(o => { o.ClientSecret = "⟦{line}⟧"; })
quarkus.datasource.password=⟦{line}⟧
akka.remote.secret-cookie = "⟦{any}⟧"
secret_token: "⟦{any}⟧"
  devise.secret_key = "⟦{hex64}⟧"
config :app, AppWeb.Endpoint, secret_key_base: "⟦{strong}⟧"
config :app, App.Repo, username: "{user}", password: "⟦{any}⟧"
gin.BasicAuth(gin.Accounts{"{user}": "⟦{strong}⟧"})
# cloud
{"AccessKey": {"UserName": "{user}", "AccessKeyId": "⟦AKIA{upper16}⟧", "SecretAccessKey": "⟦{b6440}⟧", "Status": "A"}}
aws secretsmanager create-secret --name app/db --secret-string '⟦{strong}⟧'
aws cognito-idp admin-set-user-password --username {user} --password '⟦{line}⟧' --permanent
aws iam create-login-profile --user-name {user} --password '⟦{line}⟧'
az login --service-principal -u {uuid} -p ⟦{strong}⟧ --tenant {uuid}
az sql server create --admin-user {user} --admin-password '⟦{line}⟧'
az storage blob list --account-name {word} --account-key ⟦{b6486}==⟧
DefaultEndpointsProtocol=https;AccountName={word};AccountKey=⟦{b6486}==⟧;EndpointSuffix=core.windows.net
https://{word}.blob.core.windows.net/c?sv=2023-01-03&sr=c&sig=⟦{alnum40}%3D⟧&se=2027-01-01
{"appId": "{uuid}", "displayName": "{slug}", "password": "⟦{any}⟧", "tenant": "{uuid}"}
gcloud sql users set-password {user} --instance=app --password=⟦{shell}⟧
gcloud secrets versions add {slug} --data-file=- <<< "⟦{strong}⟧"
ibmcloud login --apikey ⟦{strong}⟧ -r us-south
linode-cli configure --token ⟦{hex64}⟧
openstack --os-username {user} --os-password ⟦{shell}⟧ server list
export OS_PASSWORD=⟦{shell}⟧
oci setup --passphrase ⟦{shell}⟧
heroku config:set {NAME}=⟦{shell}⟧ -a {word}
vercel env add {NAME} production <<< ⟦{strong}⟧
netlify env:set {NAME} ⟦{strong}⟧
supabase link --project-ref {word} --password ⟦{shell}⟧
    "SessionToken": "⟦{b6480}⟧",
User name,Password,Access key ID,Secret access key⏎{user},⟦{strong}⟧,⟦AKIA{upper16}⟧,⟦{b6440}⟧
Access key ID,Secret access key⏎⟦AKIA{upper16}⟧,⟦{b6440}⟧
aws configure set aws_secret_access_key ⟦{b6440}⟧ --profile {word}
aws rds modify-db-instance --db-instance-identifier app --master-user-password ⟦{shell}⟧
Endpoint=sb://{host}/;SharedAccessKeyName=Root;SharedAccessKey=⟦{b6443}=⟧
HostName={host};DeviceId={word};SharedAccessKey=⟦{b6443}=⟧
"client_secret":"⟦GOCSPX-{alnum28}⟧"
doctl auth init -t ⟦dop_v1_{hex64}⟧
pulumi config set --secret dbPassword ⟦{shell}⟧
fly secrets set {NAME}=⟦{shell}⟧
flyctl secrets set "{NAME}=⟦{line}⟧"
wrangler secret put {NAME} <<< "⟦{strong}⟧"
# infrastructure as code
resource "aws_db_instance" "db" {⏎  username = "{user}"⏎  password = "⟦{any}⟧"⏎}
provider "cloudflare" {⏎  api_token = "⟦{any}⟧"⏎}
{name} = "⟦{any}⟧" # terraform.tfvars
terraform apply -var='db_password=⟦{line}⟧'
TF_VAR_db_password=⟦{shell}⟧ terraform plan
mysql_root_password: "⟦{any}⟧" # group_vars
node.set['postgresql']['password']['postgres'] = '⟦{line}⟧'
user --name={user} --password=⟦{shell}⟧ --plaintext
d-i passwd/user-password password ⟦{shell}⟧
d-i passwd/root-password password ⟦{shell}⟧
#cloud-config⏎password: ⟦{line}⟧⏎chpasswd: { expire: False }
config.vm.provision "shell", env: {"{NAME}" => "⟦{any}⟧"}
ssh_password = "⟦{line}⟧"
variable "{name}" {⏎  type    = string⏎  default = "⟦{any}⟧"⏎}
- name: set password⏎  user:⏎    name: {user}⏎    password: "⟦{any}⟧"
ansible-playbook site.yml -e "ansible_become_pass=⟦{shell}⟧"
{host} ansible_user={user} ansible_password=⟦{shell}⟧ ansible_port=22
default['app']['db_password'] = '⟦{line}⟧'
mysql::db { 'app': user => '{user}', password => '⟦{line}⟧', host => 'localhost' }
rootpw --plaintext ⟦{shell}⟧
chpasswd:⏎  list: |⏎    {user}:⟦{shell}⟧
<AdministratorPassword><Value>⟦{line}⟧</Value></AdministratorPassword>
config.ssh.password = "⟦{line}⟧"
"ssh_password": "⟦{any}⟧",
virt-customize -a img.qcow2 --root-password ⟦password:{shell}⟧
# containers and Kubernetes
kubeadm join {host}:6443 --token ⟦{alnum6}.{alnum16}⟧ --discovery-token-ca-cert-hash sha256:{hex64}
k3s agent --server https://{host}:6443 --token ⟦K10{hex64}::server:{hex32}⟧
users:⏎- name: admin⏎  user:⏎    token: ⟦{strong}⟧
apiVersion: v1⏎kind: Secret⏎metadata:⏎  name: db⏎data:⏎  {p.name}: ⟦{b6424}⟧
{"auths": {"{host}": {"auth": "⟦{userpass}⟧"}}}
docker run -e {NAME}=⟦{shell}⟧ -p 80:80 app
ENV {NAME} ⟦{shell}⟧
podman secret create x <(echo -n ⟦{strong}⟧)
docker swarm join --token ⟦SWMTKN-1-{alnum49}-{alnum25}⟧ 10.0.0.1:2377
kubectl create secret generic db --from-literal={kebab}=⟦{shell}⟧
kubectl create secret docker-registry reg --docker-username={user} --docker-password=⟦{shell}⟧ --docker-email=a@{host}
kubectl config set-credentials {user} --token=⟦{strong}⟧
helm install app ./chart --set {camel}=⟦{shell}⟧
helm upgrade app c --set-string auth.password='⟦{line}⟧'
helm repo add r https://{host} --username {user} --password ⟦{shell}⟧
    client-key-data: ⟦LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQo{b6480}⟧
stringData:⏎  config.yaml: |⏎    {p.name}: ⟦{line}⟧
{"auths":{"{host}":{"username":"{user}","password":"⟦{any}⟧"}}}
echo ⟦{shell}⟧ | docker login -u {user} --password-stdin {host}
ENV {NAME}="⟦{line}⟧" PORT=80
ARG {NAME}=⟦{shell}⟧
--build-arg {NAME}=⟦{shell}⟧
      - {NAME}=⟦{line}⟧
# CI
      with:⏎        token: ⟦{strong}⟧
gh secret set {NAME} --body '⟦{line}⟧' --repo a/b
withCredentials([string(credentialsId: 'x', variable: 'T')]) { sh 'curl -u {user}:⟦{strong}⟧ https://{host}' }
java -jar jenkins-cli.jar -s https://{host} -auth {user}:⟦{shell}⟧ list-jobs
##vso[task.setvariable variable=dbPassword;issecret=true]⟦{line}⟧
mvn deploy -Dgpg.passphrase=⟦{shell}⟧
<server><id>r</id><username>{user}</username><password>⟦{line}⟧</password></server>
signing.password=⟦{line}⟧
storePassword=⟦{line}⟧⏎keyPassword=⟦{line}⟧⏎keyAlias=upload
keytool -genkey -keystore k.jks -storepass ⟦{shell}⟧ -keypass ⟦{shell}⟧
xcrun notarytool submit a.zip --apple-id {user}@{host} --password ⟦{alnum4}-{alnum4}-{alnum4}-{alnum4}⟧
poetry config http-basic.r {user} ⟦{shell}⟧
poetry config pypi-token.pypi ⟦{strong}⟧
[registry]⏎token = "⟦{strong}⟧"
nuget push a.nupkg -ApiKey ⟦{strong}⟧ -Source https://{host}
<add key="ClearTextPassword" value="⟦{line}⟧" />
composer config http-basic.{host} {user} ⟦{shell}⟧
{"http-basic": {"{host}": {"username": "{user}", "password": "⟦{any}⟧"}}}
conan user -p ⟦{shell}⟧ -r remote {user}
mix hex.organization auth {word} --key ⟦{hex32}⟧
env:⏎  {NAME}: ⟦{line}⟧⏎steps: []
gh secret set {NAME} -b"⟦{line}⟧"
glab variable set {NAME} "⟦{strong}⟧"
variables:⏎  {NAME}: "⟦{any}⟧"
circleci context store-secret github org {NAME} <<< "⟦{strong}⟧"
sonar-scanner -Dsonar.login=⟦{hex40}⟧ -Dsonar.host.url=https://{host}
signingConfigs { release { storePassword "⟦{line}⟧"; keyPassword "⟦{line}⟧" } }
jarsigner -storepass ⟦{shell}⟧ -keystore k.jks a.apk {word}
signtool sign /f cert.pfx /p ⟦{shell}⟧ /t http://{host} app.exe
fastlane match --git_basic_authorization ⟦{userpass}⟧
npm config set //registry.corp.example/:_authToken ⟦npm_{alnum36}⟧
//{host}/:_password=⟦{b6424}⟧
npmAuthToken: "⟦{strong}⟧"
[distutils]⏎[pypi]⏎username = __token__⏎password = ⟦pypi-{alnum60}⟧
twine upload -u {user} -p ⟦{shell}⟧ dist/*
TWINE_PASSWORD=⟦{shell}⟧
pip install --index-url https://{user}:⟦{shell}⟧@{host}/simple x
cargo login ⟦{strong}⟧
bundle config {host} {user}:⟦{shell}⟧
# HTTP
Authorization: Bearer ⟦{strong}⟧
authorization: token ⟦{hex40}⟧
Authorization: Basic ⟦{userpass}⟧
X-Amz-Security-Token: ⟦{b6480}⟧
x-goog-api-key: ⟦AIza{alnum35}⟧
Set-Cookie: ⟦session={strong}; Path=/; HttpOnly⟧
< set-cookie: ⟦auth={strong}; Secure⟧
-H 'cookie: ⟦_ga=GA1.2.{num}; session={strong}⟧'
grant_type=password&username={user}&password=⟦{shell}⟧
https://{host}/callback#access_token=⟦{strong}⟧&token_type=bearer
https://discord.com/api/webhooks/{digit18}/⟦{alnum68}⟧
https://x-access-token:⟦ghs_{alnum36}⟧@github.com/a/b.git
git remote set-url origin https://oauth2:⟦glpat-{alnum20}⟧@{host}/a/b.git
git clone https://⟦ghp_{alnum36}⟧@github.com/a/b
wss://{host}/ws?access_token=⟦{strong}⟧
{"name": "cookie", "value": "⟦sid={strong}⟧"}
httpx.Client(auth=("{user}", "⟦{line}⟧"))
headers = {"Authorization": f"Bearer ⟦{strong}⟧"}
headers["X-Api-Key"] = "⟦{strong}⟧"
req.Header.Set("Authorization", "Bearer ⟦{strong}⟧")
curl_setopt($ch, CURLOPT_USERPWD, "⟦{user}:{strong}⟧");
Proxy-Authorization: Basic ⟦{userpass}⟧
X-Auth-Token: ⟦{strong}⟧
X-Vault-Token: ⟦hvs.{alnum30}⟧
Api-Key: ⟦{strong}⟧
Ocp-Apim-Subscription-Key: ⟦{hex32}⟧
X-Shopify-Access-Token: ⟦shpat_{hex32}⟧
DD-API-KEY: ⟦{hex32}⟧
Cookie: ⟦sid={strong}⟧
> authorization: Bearer ⟦{strong}⟧
curl -b "⟦session={strong}⟧" https://{host}
curl --cookie '⟦sid={strong}⟧' https://{host}
grant_type=client_credentials&client_id={word}&client_secret=⟦{shell}⟧
grant_type=refresh_token&refresh_token=⟦{strong}⟧&client_id={word}
https://{host}/reset?token=⟦{strong}⟧
https://api.telegram.org/bot⟦{digit9}:AA{alnum33}⟧/sendMessage
https://hooks.slack.com/services/⟦T{upper8}/B{upper8}/{alnum24}⟧
https://{user}:⟦{shell}⟧@{host}/repo.git
https://⟦{hex32}⟧@o{num}.ingest.sentry.io/{num}
{"access_token":"⟦{strong}⟧","token_type":"Bearer","expires_in":3600,"refresh_token":"⟦{strong}⟧"}
{"name": "Authorization", "value": "Bearer ⟦{strong}⟧"}
"cookies": [{"name": "sid", "value": "⟦{strong}⟧", "path": "/"}]
requests.get(u, cookies={"session": "⟦{strong}⟧"})
requests.post(u, auth=("{user}", "⟦{any}⟧"))
request.setValue("Bearer ⟦{strong}⟧", forHTTPHeaderField: "Authorization")
.header("x-api-key", "⟦{strong}⟧")
Content-Disposition: form-data; name="password"⏎⏎⟦{line}⟧
#HttpOnly_.{host}⇥TRUE⇥/⇥TRUE⇥{digit10}⇥sid⇥⟦{strong}⟧
# languages
const {camel} = '⟦{any}⟧';
private static final String {NAME} = "⟦{any}⟧";
const std::string {name} = "⟦{any}⟧";
public const string {Title} = "⟦{any}⟧";
let {name}: &str = "⟦{any}⟧";
let {name} = "⟦{any}⟧".to_string();
const {NAME}: &'static str = "⟦{any}⟧";
{name} => "⟦{any}⟧",
:{name} => "⟦{any}⟧"
@{name} = "⟦{any}⟧"
${camel} = "⟦{any}⟧"
$env:{NAME} = "⟦{any}⟧"
[string]${Title} = "⟦{any}⟧"
${name} = ConvertTo-SecureString '⟦{line}⟧' -AsPlainText -Force
set {NAME}=⟦{shell}⟧
set -x {NAME} ⟦{shell}⟧
local {name}="⟦{line}⟧"
{NAME}=⟦{shell}⟧ ./run.sh
{name} -> "⟦{any}⟧"
Dim {camel} As String = "⟦{line}⟧"
{Title}: String = '⟦{line}⟧';
{name} := '⟦{line}⟧';
os.environ["{NAME}"] = "⟦{any}⟧"
os.Setenv("{NAME}", "⟦{any}⟧")
os.getenv("{NAME}", "⟦{strong}⟧")
self.{name} = "⟦{any}⟧"
this.{camel} = '⟦{any}⟧';
new Client("{host}", { password: "⟦{any}⟧" })
.withPassword("⟦{any}⟧")
.password("⟦{strong}⟧")
set{Title}("⟦{strong}⟧");
{name} = "⟦{any}⟧"
{camel} := "⟦{any}⟧"
let {camel}: string = "⟦{any}⟧";
var {camel} = `⟦{line}⟧`
val {camel} = "⟦{any}⟧"
static const char *{name} = "⟦{any}⟧";
char {name}[] = "⟦{any}⟧";
#define {NAME} "⟦{any}⟧"
let {name} = String::from("⟦{any}⟧");
{name}: "⟦{any}⟧".into(),
{name}: '⟦{any}⟧',
my ${name} = '⟦{any}⟧';
our ${NAME} = "⟦{any}⟧";
setx {NAME} "⟦{line}⟧" /M
setenv {NAME} ⟦{shell}⟧
set -gx {NAME} '⟦{line}⟧'
export {NAME}='⟦{line}⟧'
readonly {NAME}="⟦{line}⟧"
: "${{NAME}:=⟦{strong}⟧}"
{name} <- "⟦{any}⟧"
(def {kebab} "⟦{any}⟧")
(setenv "{NAME}" "⟦{any}⟧")
{:{kebab} "⟦{any}⟧"}
process.env.{NAME} = '⟦{any}⟧';
process.env.{NAME} || "⟦{strong}⟧"
ENV["{NAME}"] ||= "⟦{strong}⟧"
connect(host="{host}", user="{user}", password="⟦{any}⟧")
Credentials({user!r}, password='⟦{any}⟧')
if ({camel} === "⟦{strong}⟧") {
assert {name} == "⟦{strong}⟧"
# configuration formats
{\"{camel}\":\"⟦{line}⟧\"}
{camel}: "⟦{any}⟧"   # comment
- {name}: "⟦{any}⟧"
{ name: {NAME}, value: "⟦{any}⟧" }
"{name}": &anchor "⟦{any}⟧"
{name}: >⏎  ⟦{strong}⟧
[section]⏎{p.name} = ⟦{line}⟧
; local⏎{p.kebab} = "⟦{any}⟧"
{dotted}=⟦{line}⟧
app.{p.dotted}: ⟦{line}⟧
{NAME}: ⟦{line}⟧
{NAME}=⟦{line}⟧ # set by ops
<property name="{p.camel}" value="⟦{line}⟧"/>
<entry key="{p.name}">⟦{line}⟧</entry>
<add key="{Title}" value="⟦{line}⟧"/>
<input type="hidden" name="{name}" value="⟦{strong}⟧">
<input type="password" value="⟦{line}⟧">
machine {host} login {user} password ⟦{shell}⟧
default login {user} password ⟦{shell}⟧
IdentityFile ~/.ssh/id⏎  ProxyCommand sshpass -p ⟦{shell}⟧ ssh {host}
network={⏎  ssid="{word}"⏎  psk="⟦{line}⟧"⏎}
wpa_passphrase=⟦{shell}⟧
bind_pw: '⟦{line}⟧'
relayhost = [{host}]⏎smtp_sasl_password_maps = static:{user}:⟦{strong}⟧
[{host}]:587 {user}@{host}:⟦{strong}⟧
set smtp_pass = "⟦{line}⟧"
poll {host} proto IMAP user "{user}" pass "⟦{line}⟧"
{"{camel}":"⟦{any}⟧","port":1}
{"{name}" : '⟦{line}⟧'}
"{spaced}": "⟦{any}⟧",
'{"{name}": "⟦{line}⟧"}'
{name}: ⟦{line}⟧
  {kebab}: '⟦{any}⟧'
  - name: {NAME}⏎    value: "⟦{any}⟧"
{name}: !!str ⟦{line}⟧
[section]⏎{name}=⟦{line}⟧
app.{camel} = ⟦{strong}⟧
{NAME} = ⟦{strong}⟧
{NAME}="⟦{line}⟧"
export {NAME}=⟦{line}⟧
<{camel}>⟦{line}⟧</{camel}>
<key>{camel}</key><string>⟦{line}⟧</string>
<key>{camel}</key>⏎⇥<string>⟦{line}⟧</string>
<setting name="{Title}"><value>⟦{line}⟧</value></setting>
<user username="{user}" password="⟦{line}⟧" roles="admin"/>
<meta name="csrf-token" content="⟦{strong}⟧">
machine {host}⏎  login {user}⏎  password ⟦{shell}⟧
PrivateKey = ⟦{b6443}=⟧
PresharedKey = ⟦{b6443}=⟧
ppp-options password ⟦{shell}⟧
{user} : EAP "⟦{line}⟧"
{host} : PSK "⟦{line}⟧"
{user} * ⟦{strong}⟧ *
auth-user-pass⏎<auth-user-pass>⏎{user}⏎⟦{strong}⟧⏎</auth-user-pass>
ldap.bind.credentials=⟦{line}⟧
rootbindpw ⟦{shell}⟧
olcRootPW: ⟦{line}⟧
bindDN: cn=admin⏎bindPassword: ⟦{line}⟧
set imap_pass="⟦{line}⟧"
account default⏎host {host}⏎user {user}⏎password ⟦{shell}⟧
passwordeval "echo ⟦{shell}⟧"
# commands
curl -u {user}:⟦{shell}⟧ https://{host}
curl -d '{"username":"{user}","password":"⟦{line}⟧"}' https://{host}
curl -F password=⟦{shell}⟧ https://{host}
wget --user={user} --password='⟦{line}⟧' https://{host}
lftp -u {user},⟦{shell}⟧ {host}
sshpass -e ssh x # SSHPASS=⟦{strong}⟧
ssh-keygen -p -P '⟦{line}⟧' -N '⟦{line}⟧' -f k
unzip -P '⟦{line}⟧' a.zip
rar a -hp⟦{shell}⟧ x.rar y
qpdf --password=⟦{shell}⟧ --decrypt a.pdf b.pdf
cmdkey /add:{host} /user:{user} /pass:⟦{shell}⟧
smbclient //{host}/s -U {user}%⟦{shell}⟧
kinit {user} <<< '⟦{line}⟧'
echo -e "⟦{shell}⟧\n⟦{shell}⟧" | passwd {user}
htpasswd -bc .htpasswd {user} ⟦{shell}⟧
mysqladmin -u root password '⟦{line}⟧'
mosquitto_pub -u {user} -P ⟦{shell}⟧ -t x -m y
vault login ⟦hvs.{alnum40}⟧
vault kv put secret/app {p.name}=⟦{shell}⟧
vault write auth/userpass/users/{user} password=⟦{shell}⟧
etcdctl --user {user}:⟦{shell}⟧ get /
influx -username {user} -password ⟦{shell}⟧
sentry-cli --auth-token ⟦{hex64}⟧ releases
okta login --token ⟦{strong}⟧
borg init --encryption=repokey; export BORG_PASSPHRASE='⟦{line}⟧'
rclone config create r sftp user {user} pass ⟦{strong}⟧
security find-generic-password -s x # password: "⟦{line}⟧"
security add-generic-password -a {user} -s {word} -w '⟦{line}⟧'
op item create --category login password=⟦{shell}⟧
bw login {user}@{host} ⟦{strong}⟧
curl --user '{user}:⟦{line}⟧' -X POST https://{host}
curl -sSL --header 'X-API-KEY: ⟦{strong}⟧' {host}
http -a {user}:⟦{shell}⟧ GET {host}
ftp ftp://{user}:⟦{shell}⟧@{host}/
sshpass -p '⟦{line}⟧' scp a {user}@{host}:
ssh-keygen -t rsa -N "⟦{line}⟧" -f key
openssl pkcs12 -export -passout pass:⟦{shell}⟧ -in c.pem
openssl rsa -in k -passin 'pass:⟦{line}⟧'
gpg --batch --passphrase ⟦{shell}⟧ -d a.gpg
gpg --batch --yes --passphrase '⟦{line}⟧' -c a
7z x a.7z -p⟦{shell}⟧
zip -P ⟦{shell}⟧ a.zip b
net use Z: \\{host}\s /user:{user} ⟦{shell}⟧
net user {user} ⟦{shell}⟧ /add
runas /user:{user} /password:⟦{shell}⟧ cmd
schtasks /create /tn x /ru {user} /rp ⟦{shell}⟧
mount -t cifs //{host}/s /m -o username={user},password=⟦{shell}⟧
rdesktop -u {user} -p ⟦{shell}⟧ {host}
xfreerdp /u:{user} /p:⟦{shell}⟧ /v:{host}
ldapsearch -x -D cn=admin -w ⟦{shell}⟧ -b dc=a
echo "{user}:⟦{shell}⟧" | chpasswd
echo '⟦{line}⟧' | sudo -S ls
useradd -m -p ⟦{strong}⟧ {user}
redis-cli -a ⟦{shell}⟧ ping
consul kv put app/{p.name} ⟦{shell}⟧
snyk auth ⟦{uuid}⟧
codecov -t ⟦{uuid}⟧
ngrok config add-authtoken ⟦{strong}⟧
tailscale up --authkey ⟦tskey-auth-{alnum17}-{alnum32}⟧
cloudflared service install ⟦{b6480}⟧
stripe login --api-key ⟦sk_test_{alnum24}⟧
twilio login AC{hex32} --auth-token ⟦{hex32}⟧
restic -r s3:{host} --password-command 'echo ⟦{shell}⟧' backup /
duplicity --encrypt-key A; PASSPHRASE=⟦{shell}⟧ duplicity a b
ipmitool -I lanplus -H {host} -U {user} -P ⟦{shell}⟧ power on
snmpget -v3 -u {user} -A ⟦{shell}⟧ -X ⟦{shell}⟧ {host} sysName.0
sops --set '["{p.name}"] "⟦{line}⟧"' s.yaml
# people talking
the password is ⟦{strong}⟧
The admin password is now ⟦{strong}⟧, please change it.
my token is ⟦{strong}⟧
Password: ⟦{line}⟧
password = ⟦{strong}⟧ for {user}
login: {user} / ⟦{strong}⟧
The new secret key for staging is `⟦{strong}⟧`.
I set the password to "⟦{any}⟧".
I changed the root password to ⟦{strong}⟧ yesterday
the db pass is ⟦{strong}⟧ and the port 5432
API key for the sandbox – ⟦{strong}⟧
token: `⟦{strong}⟧`
**Token**: `⟦{strong}⟧`
- Password: `⟦{line}⟧`
{user}⇥password⇥⟦{strong}⟧
sign in with {user} and password ⟦{strong}⟧
das Passwort ist ⟦{strong}⟧
contraseña: ⟦{line}⟧
密码：⟦{strong}⟧
Initial admin password:⏎⟦{hex32}⟧
Here is the api key: ⟦{strong}⟧
use this key: ⟦{strong}⟧
pw: ⟦{strong}⟧
{user} / ⟦{strong}⟧ are the credentials
creds: ⟦{user}:{strong}⟧
username {user} password ⟦{strong}⟧
Your temporary password: ⟦{line}⟧
Your API token is: ⟦{strong}⟧
**Password:** ⟦{line}⟧
| {Title} | `⟦{strong}⟧` |
| User | Password |⏎|---|---|⏎| {user} | ⟦{strong}⟧ |
Set {NAME} to ⟦{strong}⟧
Passwort: ⟦{line}⟧
mot de passe : ⟦{strong}⟧
el token es ⟦{strong}⟧
пароль: ⟦{line}⟧
Recovery codes:⏎⟦{alnum5}-{alnum5}⟧⏎⟦{alnum5}-{alnum5}⟧
Generated password for root@localhost: ⟦{strong}⟧
A temporary password is generated for root@localhost: ⟦{strong}⟧
Please use the following password to proceed to installation:⏎⏎⟦{hex32}⟧
# encodings and wrapping
%22{name}%22%3A%22⟦{strong}⟧%22
{camel}%3D⟦{strong}⟧%26x%3D1
&quot;{camel}&quot;:&quot;⟦{strong}⟧&quot;
"⟦xoxb-{digit12}-{digit12}-{alnum24}⟧",
⟦-----BEGIN RSA PRIVATE KEY-----\n{b6464}\n{b6464}\n-----END RSA PRIVATE KEY-----⟧
"private_key": "⟦-----BEGIN PRIVATE KEY-----\n{b6464}\n{b6420}==\n-----END PRIVATE KEY-----⟧\n"
\u0022{camel}\u0022:\u0022⟦{strong}⟧\u0022
backup_⟦ghp_{alnum36}⟧.tar.gz
x⟦AKIA{upper16}⟧
(⟦sk-ant-api03-{alnum80}AA⟧)
OPENAI=⟦sk-proj-{alnum64}⟧
--key=⟦AIza{alnum35}⟧
[⟦{jwt}⟧]
id_token=⟦{jwt}⟧
{NAME}=⟦{b6440}⟧ \⏎  run
# files of tools
[mail]⏎host = {host}⏎username = {user}⏎password = ⟦{line}⟧
[remote "origin"]⏎⇥url = https://{user}:⟦{strong}⟧@{host}/a.git
[http]⏎  extraheader = AUTHORIZATION: basic ⟦{userpass}⟧
{"token":"⟦{any}⟧","user":"{user}"}
github.com:⏎    oauth_token: ⟦gho_{alnum36}⟧⏎    user: {user}
hosts:⏎  {host}:⏎    token: ⟦{strong}⟧
api_token = ⟦{strong}⟧
access-token: ⟦{strong}⟧
TELEGRAM_BOT_TOKEN=⟦{digit10}:AA{alnum33}⟧
DISCORD_TOKEN="⟦{line}⟧"
SMTP_PASS="⟦{line}⟧"
SENTRY_AUTH_TOKEN=⟦sntrys_{alnum60}⟧
MAILGUN_API_KEY=⟦key-{hex32}⟧
TWILIO_AUTH_TOKEN=⟦{hex32}⟧
ALGOLIA_ADMIN_KEY=⟦{hex32}⟧
CLOUDINARY_URL=cloudinary://{digit15}:⟦{strong}⟧@{word}
LDAP_BIND_PASSWORD: "⟦{any}⟧"
KEYCLOAK_ADMIN_PASSWORD=⟦{line}⟧
GF_SECURITY_ADMIN_PASSWORD=⟦{line}⟧
MINIO_ROOT_USER={user}⏎MINIO_ROOT_PASSWORD=⟦{line}⟧
VAULT_DEV_ROOT_TOKEN_ID=⟦{strong}⟧
MEILI_MASTER_KEY=⟦{line}⟧
PGBOUNCER: "{user}" "⟦{strong}⟧"
"{user}" "md5⟦{hex32}⟧"
admin_passwd = ⟦{line}⟧
[options]⏎db_password = ⟦{line}⟧⏎db_user = {user}
[security]⏎admin_user = {user}⏎admin_password = ⟦{line}⟧⏎secret_key = ⟦{strong}⟧
password: ⟦{line}⟧  # change in production
security:⏎  oauth2:⏎    client:⏎      client-id: {slug}⏎      client-secret: ⟦{line}⟧
jwt:⏎  secret: "⟦{any}⟧"⏎  ttl: {num}
smtp:⏎  from: a@{host}⏎  password: ⟦{line}⟧
receivers:⏎- name: pager⏎  pagerduty_configs:⏎  - service_key: ⟦{hex32}⟧
slack_api_url: 'https://hooks.slack.com/services/⟦T{upper8}/B{upper8}/{alnum24}⟧'
basic_auth:⏎  username: {user}⏎  password: ⟦{line}⟧
remote_write:⏎- url: https://{host}⏎  bearer_token: ⟦{strong}⟧
auth:⏎  strategy: basic⏎  credentials:⏎    {user}: ⟦{strong}⟧
"users": {"{user}": {"password": "⟦{any}⟧", "role": "admin"}}
"db": {"user":"{user}","pass":"⟦{any}⟧","host":"{host}"}
"smtp": {"auth": {"user": "{user}", "pass": "⟦{any}⟧"}}
auth: { user: "{user}", pass: "⟦{any}⟧" }
auth: {⏎    user: '{user}',⏎    pass: '⟦{any}⟧',⏎  }
"encryptionKey": "⟦{any}⟧"
"privateKey": "⟦0x{hex64}⟧"
mnemonic: "⟦{any}⟧"
"accounts": ["⟦0x{hex64}⟧"], "private_key": "⟦0x{hex64}⟧"
PRIVATE_KEY=⟦0x{hex64}⟧
DEPLOYER_PRIVATE_KEY=⟦{hex64}⟧
"wifi": {"ssid": "{word}", "password": "⟦{any}⟧"}
wifi:⏎  ssid: "{word}"⏎  password: "⟦{any}⟧"
ota:⏎  - platform: esphome⏎    password: "⟦{any}⟧"
#define WIFI_PASS "⟦{any}⟧"
const char* password = "⟦{any}⟧";
mqtt:⏎  broker: {host}⏎  username: {user}⏎  password: ⟦{line}⟧
rest:⏎  - headers:⏎      Authorization: Bearer ⟦{strong}⟧
<password encrypted="false">⟦{line}⟧</password>
<sharedSecret>⟦{line}⟧</sharedSecret>
<wsse:Password Type="PasswordText">⟦{line}⟧</wsse:Password>
<soap:Body><login><user>{user}</user><pwd>⟦{line}⟧</pwd></login></soap:Body>
<connection name="x" username="{user}" password="⟦{line}⟧"/>
<jdbc:password>⟦{line}⟧</jdbc:password>
<env name="{NAME}" value="⟦{line}⟧"/>
<ini name="x.password" value="⟦{line}⟧"/>
<variable name="{p.name}">⟦{line}⟧</variable>
javax.net.ssl.keyStorePassword=⟦{line}⟧
-Djavax.net.ssl.trustStorePassword=⟦{shell}⟧
server.ssl.key-store-password=⟦{line}⟧
hibernate.connection.password ⟦{strong}⟧
ssl.truststore.password=⟦{line}⟧
org.gradle.project.signingPassword=⟦{line}⟧
ossrhPassword=⟦{line}⟧
export ORG_GRADLE_PROJECT_signingInMemoryKeyPassword=⟦{shell}⟧
bitbucket_app_password = "⟦{any}⟧"
machine_token = '⟦{any}⟧'
# shells and tools
read PASS <<< "⟦{line}⟧"
PASS='⟦{line}⟧'; curl -u "{user}:$PASS" {host}
DB_PASS=⟦{shell}⟧ node app.js
env {NAME}=⟦{shell}⟧ python a.py
sudo env {NAME}='⟦{line}⟧' make
docker compose run -e {NAME}='⟦{line}⟧' web
docker exec -e PGPASSWORD=⟦{shell}⟧ db psql -U {user}
docker exec db mysql -u root -p⟦{shell}⟧ -e "show tables"
kubectl exec pod -- env {NAME}=⟦{shell}⟧ run
kubectl -n a patch secret s -p '{"stringData":{"{p.name}":"⟦{line}⟧"}}'
oc login https://{host}:6443 -u {user} -p ⟦{shell}⟧
oc login --token=⟦sha256~{alnum43}⟧ --server=https://{host}
argocd login {host} --username admin --password ⟦{shell}⟧
rancher login https://{host} --token ⟦token-{alnum5}:{alnum54}⟧
nomad acl bootstrap; export NOMAD_TOKEN=⟦{uuid}⟧
consul acl token read --token ⟦{uuid}⟧
export CONSUL_HTTP_TOKEN=⟦{uuid}⟧
aws sts assume-role; export AWS_SESSION_TOKEN=⟦{b6480}⟧
export AWS_ACCESS_KEY_ID=⟦AKIA{upper16}⟧ AWS_SECRET_ACCESS_KEY=⟦{b6440}⟧
export ARM_CLIENT_SECRET="⟦{any}⟧"
$Env:AZURE_CLIENT_SECRET = '⟦{line}⟧'
(New-Object PSCredential("{user}", (ConvertTo-SecureString "⟦{line}⟧" -AsPlainText -Force)))
New-LocalUser -Name {user} -Password (ConvertTo-SecureString '⟦{line}⟧' -AsPlainText -Force)
$cred = [pscredential]::new('{user}', (ConvertTo-SecureString '⟦{line}⟧' -AsPlainText -Force))
Invoke-RestMethod -Headers @{ Authorization = "Bearer ⟦{strong}⟧" } -Uri https://{host}
Invoke-WebRequest https://{host} -Headers @{'X-Api-Key'='⟦{strong}⟧'}
wmic /user:{user} /password:⟦{shell}⟧ os get name
psexec \\{host} -u {user} -p ⟦{shell}⟧ cmd
winrs -r:{host} -u:{user} -p:⟦{shell}⟧ dir
plink -ssh {user}@{host} -pw ⟦{shell}⟧
pscp -pw ⟦{shell}⟧ a {user}@{host}:/t
net use \\{host}\c$ /user:{user} ⟦{shell}⟧
reg add HKLM\x /v DefaultPassword /t REG_SZ /d ⟦{shell}⟧
"DefaultPassword"="⟦{line}⟧"
openssl enc -aes-256-cbc -pass pass:⟦{shell}⟧ -in a
openssl s_client -psk ⟦{hex64}⟧ -connect {host}:443
gpg --passphrase="⟦{line}⟧" --symmetric a
age-keygen # ⟦AGE-SECRET-KEY-1{upper58}⟧
cryptsetup open /dev/sdb1 x <<< "⟦{line}⟧"
printf '%s' '⟦{line}⟧' | cryptsetup luksFormat /dev/sdb1 -
echo -n ⟦{shell}⟧ | gh auth login --with-token
gh auth login --with-token <<< ⟦ghp_{alnum36}⟧
hub api -H "Authorization: token ⟦{hex40}⟧"
curl -H 'Authorization: Token ⟦{hex40}⟧' https://{host}
curl -H "PRIVATE-TOKEN:⟦glpat-{alnum20}⟧" https://{host}
curl --header "Circle-Token: ⟦{hex40}⟧" https://{host}
curl -X POST -d "user={user}&pass=⟦{shell}⟧" https://{host}
curl -X POST --data-raw '{"api_key":"⟦{any}⟧"}' {host}
curl "https://{host}/api?key=⟦AIza{alnum35}⟧&q=x"
curl --digest -u '{user}:⟦{line}⟧' http://{host}
aria2c --http-user={user} --http-passwd=⟦{shell}⟧ https://{host}
youtube-dl -u {user} -p ⟦{shell}⟧ https://{host}
mutt -e 'set imap_pass="⟦{line}⟧"'
offlineimap: remotepass = ⟦{line}⟧
isync: Pass "⟦{line}⟧"
tar c a | openssl aes-256-cbc -k ⟦{shell}⟧
svn co https://{host} --username {user} --password ⟦{shell}⟧
p4 login <<< ⟦{strong}⟧
cvs -d :pserver:{user}:⟦{shell}⟧@{host}:/r login
hg clone https://{user}:⟦{shell}⟧@{host}/r
rsync --password-file=<(echo ⟦{shell}⟧) a b
RSYNC_PASSWORD=⟦{shell}⟧ rsync a b
gcloud auth activate-refresh-token {user} ⟦{strong}⟧
gsutil -o "Credentials:⟦gs_secret_access_key={b6440}⟧" ls
s3cmd --access_key=⟦AKIA{upper16}⟧ --secret_key=⟦{b6440}⟧ ls
mc alias set m https://{host} {user} ⟦{strong}⟧
b2 authorize-account {hex12} ⟦{strong}⟧
s3fs b /m -o passwd_file=<(echo ⟦{user}:{strong}⟧)
cat > ~/.pgpass <<E⏎{host}:5432:*:{user}:⟦{line}⟧⏎E
cat > ~/.netrc <<E⏎machine {host} login {user} password ⟦{shell}⟧⏎E
expect -c 'expect "Password:"; send "⟦{line}⟧\r"'
sqlcmd -S {host} -U {user} -P '⟦{line}⟧' -Q "select 1"
bcp t out f -S {host} -U {user} -P⟦{shell}⟧
mongodump -u {user} -p '⟦{line}⟧' --authenticationDatabase admin
mongosh --username {user} --password ⟦{shell}⟧ {host}
pgloader mysql://{user}:⟦{shell}⟧@{host}/a pgsql:///b
createuser -P {user} # password ⟦{strong}⟧
flyway -user={user} -password=⟦{shell}⟧ migrate
liquibase --username={user} --password=⟦{shell}⟧ update
cqlsh {host} -u {user} -p ⟦{shell}⟧
impdp userid={user}/⟦{shell}⟧@x dumpfile=a.dmp
ALTER USER {user} IDENTIFIED BY ⟦{shell}⟧;
CREATE ROLE {user} LOGIN PASSWORD '⟦{line}⟧' VALID UNTIL '2027-01-01';
CREATE USER {user} WITH ENCRYPTED PASSWORD '⟦{line}⟧';
INSERT INTO users (name, password) VALUES ('{user}', '⟦{strong}⟧');
UPDATE users SET password='⟦{line}⟧' WHERE name='{user}';
CREATE SECRET s (TYPE S3, KEY_ID '⟦AKIA{upper16}⟧', SECRET '⟦{b6440}⟧');
SELECT dblink_connect('host={host} user={user} password=⟦{shell}⟧')
CHANGE MASTER TO MASTER_USER='{user}', MASTER_PASSWORD='⟦{line}⟧';
EXEC sp_addlogin '{user}', '⟦{strong}⟧'
# code
client = OpenAI(api_key="⟦{any}⟧")
openai.api_key = '⟦sk-proj-{alnum64}⟧'
boto3.client('s3', aws_access_key_id='⟦AKIA{upper16}⟧', aws_secret_access_key='⟦{b6440}⟧')
redis.Redis(host='{host}', password='⟦{any}⟧', db=0)
create_engine("postgresql://{user}:⟦{strong}⟧@{host}/db")
smtp.login("{user}@{host}", "⟦{line}⟧")
imaplib.IMAP4_SSL(h).login('{user}', '⟦{line}⟧')
Github("⟦ghp_{alnum36}⟧")
bot = telebot.TeleBot("⟦{digit10}:AA{alnum33}⟧")
jwt.encode({"a": 1}, "⟦{strong}⟧", algorithm="HS256")
itsdangerous.URLSafeSerializer("⟦{strong}⟧")
crypto.createHmac('sha256', '⟦{strong}⟧')
const stripe = require('stripe')('⟦sk_live_{alnum24}⟧');
mongoose.connect('mongodb+srv://{user}:⟦{strong}⟧@{host}/db')
new Pool({ user: '{user}', password: '⟦{any}⟧', port: 5432 })
mysql.createConnection({host:'{host}',user:'{user}',password:'⟦{any}⟧'})
firebase.initializeApp({ apiKey: "⟦AIza{alnum35}⟧", projectId: "{slug}" })
axios.get(u, { auth: { username: '{user}', password: '⟦{any}⟧' } })
fetch(u, {headers: {'x-api-key': '⟦{any}⟧'}})
sql.Open("mysql", "{user}:⟦{strong}⟧@tcp({host})/db")
req.SetBasicAuth("{user}", "⟦{any}⟧")
os.Setenv("{NAME}", `⟦{line}⟧`)
Password: "⟦{any}⟧",
.basic_auth("{user}", Some("⟦{any}⟧"))
.bearer_auth("⟦{strong}⟧")
std::env::set_var("{NAME}", "⟦{any}⟧");
DriverManager.getConnection(url, "{user}", "⟦{any}⟧");
dataSource.setPassword("⟦{any}⟧");
props.put("password", "⟦{any}⟧");
System.setProperty("javax.net.ssl.keyStorePassword", "⟦{any}⟧");
new SqlConnection("Server={host};User Id={user};Password=⟦{shell}⟧;")
new NetworkCredential("{user}", "⟦{any}⟧")
var {camel} = "⟦{any}⟧";
internal const string {Title} = "⟦{any}⟧";
new PDO('mysql:host={host}', '{user}', '⟦{any}⟧');
mysqli_connect("{host}", "{user}", "⟦{any}⟧", "db");
putenv('{NAME}=⟦{line}⟧');
'password' => '⟦{any}⟧',
Net::SSH.start("{host}", "{user}", password: "⟦{any}⟧")
Aws::Credentials.new('⟦AKIA{upper16}⟧', '⟦{b6440}⟧')
let {camel}: String = "⟦{any}⟧"
static let {camel} = "⟦{any}⟧"
const val {NAME} = "⟦{any}⟧"
buildConfigField("String", "{NAME}", "\"⟦{any}⟧\"")
resValue "string", "{name}", "⟦{line}⟧"
<string name="{name}">⟦{line}⟧</string>
final {camel} = '⟦{any}⟧';
Sys.setenv({NAME} = "⟦{any}⟧")
@password "⟦{any}⟧"
{:password, "⟦{any}⟧"}
-define({NAME}, "⟦{any}⟧").
{name} = '⟦{any}⟧'; % matlab
# reports and chat
DEBUG: connecting with password=⟦{shell}⟧ user={user}
INFO login ok user={user} token=⟦{strong}⟧ ip=10.0.0.1
[auth] api_key=⟦{strong}⟧ accepted
{"level":"info","msg":"login","password":"⟦{any}⟧"}
level=debug msg="new session" session_token=⟦{strong}⟧
request: {'headers': {'Authorization': 'Bearer ⟦{strong}⟧'}}
Traceback: connect(user='{user}', password='⟦{any}⟧')
--password ⟦{shell}⟧ was given on the command line
password is ⟦{strong}⟧
pass: ⟦{strong}⟧
pwd = ⟦{strong}⟧
pw is ⟦{strong}⟧
the password for {user} is ⟦{strong}⟧
login with {user}:⟦{strong}⟧ on https://{host}
user: {user}⏎password: ⟦{line}⟧
User: {user}, Password: ⟦{strong}⟧
Username: {user} | Password: ⟦{strong}⟧
ssh {user}@{host} (password: ⟦{strong}⟧)
you can log in with password ⟦{strong}⟧
the token I created: ⟦{strong}⟧
here's my key ⟦sk-ant-api03-{alnum80}AA⟧
try with token ⟦{strong}⟧ instead
secret key = ⟦{strong}⟧
the secret key: ⟦{strong}⟧
please put API_KEY=⟦{strong}⟧ into the .env
New password generated: ⟦{strong}⟧
Default credentials: {user} / ⟦{strong}⟧
Your verification token: ⟦{strong}⟧
Access token: ⟦{strong}⟧
Your API key has been created: ⟦{strong}⟧
* password → ⟦{strong}⟧
> Password: ⟦{line}⟧
`password`: `⟦{strong}⟧`
- **API key**: ⟦{strong}⟧
| API key | ⟦{strong}⟧ |
<td>Password</td><td>⟦{strong}⟧</td>
<b>Password:</b> ⟦{strong}⟧
<code>token=⟦{strong}⟧</code>
name,password⏎{user},⟦{strong}⟧
id;user;api_key⏎1;{user};⟦{strong}⟧
username⇥password⏎{user}⇥⟦{strong}⟧
password:⏎  ⟦{strong}⟧
"""
