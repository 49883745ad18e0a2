r"""A table of places where a secret has no telling name: flags of programs, lines of files, arguments, SQL statements.

A row gives the pattern of the place, the trigger that finds its lines in a whole text, the rule that its findings
report and an example. In a pattern `VALUE` stands for a word or a quoted text, `PAIR` for `user:VALUE` and `ANY` for
the text up to the next program. Every example is a test: ⟦ ⟧ enclose what is masked.
"""

from dataclasses import dataclass

from shiftlog.guard.secrets.detectors import kinds
from shiftlog.guard.secrets.detectors.kinds import SecretKind
from shiftlog.guard.secrets.detectors.quotes import LINEAR_EDGE
from shiftlog.guard.secrets.detectors.values import Need


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place of a secret; `pattern` is for `re`, `trigger` for linear-time searches."""

    name: str
    pattern: str
    trigger: str
    example: str
    kind: SecretKind = kinds.CLI_PASSWORD
    need: Need = Need.MIXED


LINE_START = r"(?:^|(?<=\\n)|(?<=[ \t:>+#\"'-]))"

PLACES = (
    Place(
        name="sshpass",
        pattern=r"sshpass\s{1,4}-p\s{0,4}VALUE",
        trigger=r"sshpass\s+-p",
        example="sshpass -p ⟦hunter⟧ ssh bob@db",
    ),
    Place(
        name="password attached to -p",
        pattern=r"(?:mysql\w{0,12}|mariadb[\w-]{0,12}|7za?|rar|unrar)ANY\s-pVALUE",
        trigger=r"\s-p[^\s-]",
        example="mysql -u root -p⟦hunter⟧ app",
    ),
    Place(
        name="password after -p or -P",
        pattern=r"(?:(?:docker|podman|nerdctl|helm registry|oc|az|buildah|skopeo|cf|gh)\s{1,4}login|mongo\w{0,10}|cqlsh"
        r"|twine|sqlcmd|mssql-cli|bcp|isql|svn|ftp|lftp|ncftp\w{0,4}|mosquitto_\w{3}|rabbitmqadmin|zip|unzip|ipmitool"
        r"|impacket-\w{1,20}|useradd|usermod|ssh-keygen|rdesktop|psexec|PsExec\w{0,6})ANY\s-[pP]\s{1,4}VALUE",
        trigger=r"\s-[pP]\s+[^\s-]",
        example="sqlcmd -S db -U sa -P ⟦hunter⟧",
    ),
    Place(
        name="user and password of a request",
        pattern=r"(?:curl|wget|https?|xh|curlie|ab|etcdctl)ANY"
        r"\s(?:-u|--user|-a|--auth|-A|--proxy-user|-U|--basic-auth)[ =]{0,3}PAIR",
        trigger=r"\s(?:-u|--user|-a|--auth|-A|--proxy-user|-U|--basic-auth)[ =]*\\*[\"']?[^\s:/\"']+[\"']?:[^/\s]",
        example="curl -u joe:⟦99837286⟧ https://example.com",
    ),
    Place(
        name="bearer of a request",
        pattern=r"curlANY\s--oauth2-bearer[ =]VALUE",
        trigger=r"--oauth2-bearer",
        example="curl --oauth2-bearer ⟦kettle⟧ https://example.com",
    ),
    Place(
        name="ssh-keygen -N",
        pattern=r"ssh-keygenANY\s-N\s{1,4}VALUE",
        trigger=LINEAR_EDGE + r"ssh-keygen\s",
        example="ssh-keygen -t ed25519 -N ⟦kettle⟧ -f key",
    ),
    Place(
        name="redis-cli -a",
        pattern=r"redis-cliANY\s-a\s{1,4}VALUE",
        trigger=LINEAR_EDGE + r"redis-cli\s",
        example="redis-cli -h cache -a ⟦kettle⟧ ping",
    ),
    Place(
        name="password after -w",
        pattern=r"(?:ldap[a-z]{3,8}|security\s{1,4}add-(?:generic|internet)-password)ANY\s-w\s{0,4}VALUE",
        trigger=LINEAR_EDGE + r"(?:ldap[a-z]{3,8}\s|security\s+add-)",
        example="ldapsearch -D cn=admin -w ⟦kettle⟧ -b dc=x",
    ),
    Place(
        name="user%password",
        pattern=r"(?:smbclient|smbmap|net|rpcclient|mount|winexe)ANY\s-U\s{0,4}[\"']?[\w\\.-]{1,64}%VALUE",
        trigger=r"\s-U\s*[^\s%]+%",
        example="smbclient //srv/share -U bob%⟦kettle⟧",
    ),
    Place(
        name="htpasswd -b",
        pattern=r"htpasswd\s{1,4}-\w{0,6}b\w{0,6}\s{1,4}\S{1,256}\s{1,4}\S{1,64}\s{1,4}VALUE",
        trigger=LINEAR_EDGE + r"htpasswd\s+-",
        example="htpasswd -bc .htpasswd bob ⟦kettle⟧",
    ),
    Place(
        name="openssl pass:",
        pattern=r"\s-(?:pass|passin|passout|srp-pass)\s{1,4}\\?[\"']?pass:VALUE",
        trigger=r"\s-(?:pass|passin|passout|srp-pass)\s+\\*[\"']?pass:",
        example="openssl rsa -in k.pem -passin pass:⟦kettle⟧",
    ),
    Place(
        name="openssl enc -k",
        pattern=r"openssl\s{1,4}enc\b[^|]{0,200}?\s-k\s{1,4}VALUE",
        trigger=LINEAR_EDGE + r"openssl\s+enc\s",
        example="openssl enc -aes-256-cbc -k ⟦kettle⟧ -in a",
    ),
    Place(
        name="password piped to a program",
        pattern=r"(?:echo|printf)\s{1,4}(?:-n\s{1,4}|\\?[\"']%s\\?[\"']\s{1,4})?VALUE\\?[\"']?\s{0,4}\|\s{0,4}(?:sudo\s{1,4}-\w*S|passwd\s{1,4}--stdin|su\b"
        r"|[\w./ -]{1,80}--password-stdin|gh\s{1,4}(?:secret\s{1,4}set|auth\s{1,4}login))",
        trigger=r"\|\s*(?:sudo\s|passwd\s|su\b|chpasswd|gh\s+(?:secret|auth)|[\w./ -]+--password-stdin)",
        example="echo '⟦kettle⟧' | sudo -S apt update",
    ),
    Place(
        name="password in a here-string",
        pattern=r"(?:sudo\s{1,4}-\w{0,4}S|kinit|passwd|su|docker\s{1,4}login|gh\s{1,4}auth)\b[^"
        r"|]{0,100}?<<<\s{0,4}VALUE",
        trigger=r"<<<",
        example='kinit bob <<< "⟦kettle⟧"',
    ),
    Place(
        name="openssl passwd",
        pattern=r"openssl\s{1,4}passwd(?:\s{1,4}-\w{1,12}){0,4}\s{1,4}VALUE",
        trigger=r"openssl\s+passwd\s",
        example="openssl passwd -6 ⟦kettle⟧",
    ),
    Place(
        name="mysqladmin password",
        pattern=r"mysqladminANY\spassword\s{1,4}VALUE",
        trigger=r"mysqladmin\s",
        example="mysqladmin -u root password ⟦kettle⟧",
    ),
    Place(
        name="Windows flags with a colon",
        pattern=r"\s-u(?:ser)?:\S{1,64}[^|]{0,100}?\s-p(?:ass)?:VALUE",
        trigger=r"\s-p(?:ass)?:\S",
        example="winrs -r:db -u:bob -p:⟦kettle⟧ ipconfig",
    ),
    Place(
        name="answers to a password prompt",
        pattern=r"assword.{0,80}?\bsend\s{1,4}(?:--\s{1,4})?\\?\"(?P<d9>[^\"\\]{4,256})",
        trigger=r"assword.*\bsend\s",
        example='expect "assword:"; send "⟦kettle⟧\\r"',
    ),
    Place(
        name="user and password piped to chpasswd",
        pattern=r"echo\s{1,4}(?:-n\s{1,4})?\\?[\"']?[\w.-]{1,64}:VALUE\\?[\"']?\s{0,4}\|\s{0,4}(?:sudo\s{1,4})?chpasswd",
        trigger=r"\|\s*chpasswd",
        example='echo "bob:⟦kettle⟧" | chpasswd',
    ),
    Place(
        name="ConvertTo-SecureString",
        pattern=r"ConvertTo-SecureString\s{1,4}(?:-String\s{1,4})?VALUE",
        trigger=LINEAR_EDGE + r"ConvertTo-SecureString\s",
        example='ConvertTo-SecureString "⟦kettle⟧" -AsPlainText -Force',
    ),
    Place(
        name="gh secret set",
        pattern=r"gh\s{1,4}secret\s{1,4}setANY\s(?:--body|-b)[ =]{1,2}VALUE",
        trigger=r"gh\s+secret\s+set\s",
        example='gh secret set NAME --body "⟦kettle⟧"',
    ),
    Place(
        name="values of secret stores",
        pattern=r"(?:keyvault\s{1,4}secret\s{1,4}set|ssm\s{1,4}put-parameter)ANY\s--value[ =]{1,2}VALUE",
        trigger=r"(?:keyvault\s+secret|ssm\s+put-parameter)\s",
        example="az keyvault secret set --vault-name v --name n --value ⟦kettle⟧",
    ),
    Place(
        name="secret strings",
        pattern=r"secretsmanagerANY\s--secret-string[ =]{1,2}VALUE",
        trigger=r"--secret-string",
        example='aws secretsmanager create-secret --name n --secret-string "⟦kettle⟧"',
    ),
    Place(
        name="literals of Kubernetes secrets",
        pattern=r"(?:create\s{1,4}secret)ANY--from-literal[ =][\"']?[\w.-]{1,64}=VALUE",
        trigger=r"--from-literal",
        example="kubectl create secret generic db --from-literal=whatever=⟦kettle⟧",
    ),
    Place(
        name="secrets set by name",
        pattern=r"(?:dotnet\s{1,4}user-secrets\s{1,4}set\s{1,4}"
        r"|composer\s{1,4}config\s{1,4}(?:-\S{1,20}\s{1,4})?http-basic\.\S{1,80}\s{1,4}"
        r"|rabbitmqctl\s{1,4}(?:add_user|change_password)\s{1,4}|poetry\s{1,4}config\s{1,4}http-basic\.\S{1,80}\s{1,4}"
        r"|wpa_passphrase\s{1,4})(?:\"[^\"]{1,128}\"|\S{1,128})\s{1,4}VALUE",
        trigger=r"(?:user-secrets\s+set|http-basic\.\S+|rabbitmqctl\s+(?:add_user|change_password)|wpa_passphrase)\s",
        example="rabbitmqctl add_user bob ⟦kettle⟧",
    ),
    Place(
        name="tokens given to a program",
        pattern=r"(?:cargo\s{1,4}login|vault\s{1,4}login|poetry\s{1,4}config\s{1,4}pypi-token\.\S{1,40}"
        r"|snyk\s{1,4}auth|_authToken"
        r"|git\s{1,4}config\s{1,4}(?:--\w{1,8}\s{1,4})?[\w.]{1,40}\.(?:token|password))\s{1,4}VALUE",
        trigger=r"(?:(?:cargo|vault)\s+login|config\s+pypi-token\.\S+|snyk\s+auth|:_authToken"
        r"|git\s+config\s.*\.(?:token|password))\s",
        example="cargo login ⟦cio4Yh2kQm7Zs9Tf1Lx3⟧",
        need=Need.DIGITS,
    ),
    Place(
        name="net use",
        pattern=r"net\s{1,4}use\s{1,4}(?:\S{1,4}\s{1,4})?\\\\\S{1,128}\s{1,4}(?:/user:\S{1,64}\s{1,4})?(?!/)VALUE",
        trigger=r"net\s+use\s",
        example=r"net use Z: \\srv\share ⟦kettle⟧ /user:bob",
    ),
    Place(
        name="net user",
        pattern=r"net\s{1,4}user\s{1,4}[\w.-]{1,64}\s{1,4}(?!/)VALUE",
        trigger=r"net\s+user\s",
        example="net user bob ⟦kettle⟧ /add",
    ),
    Place(
        name="Windows flags",
        pattern=r"(?:cmdkey|xfreerdp|mstsc|wfreerdp)ANY\s/p(?:ass)?:VALUE",
        trigger=r"\s/p(?:ass)?:[^\s]",
        example="cmdkey /add:db /user:bob /pass:⟦kettle⟧",
    ),
    Place(
        name="Oracle logins",
        pattern=r"(?:(?:sqlplus|expdp|impdp|sqlldr|rman\s{1,4}target)\s{1,4}(?:-\w{1,8}\s{1,4}){0,3}[\"']?"
        r"|jdbc:oracle:\w{1,8}:)"
        r"[\w.$#-]{1,64}/(?P<u9>[^\s@\"'\\]{1,128})",
        trigger=r"(?:sqlplus|expdp|impdp|sqlldr|rman\s+target|jdbc:oracle:\w+:)[^/]*/[^\s]",
        example="sqlplus scott/⟦tiger⟧@//db:1521/orcl",
    ),
    Place(
        name="lftp -u",
        pattern=r"lftpANY\s-u\s{1,4}[\"']?[\w.@-]{1,64},VALUE",
        trigger=LINEAR_EDGE + r"lftp\s",
        example="lftp -u bob,⟦kettle⟧ example.com",
    ),
    Place(
        name="SNMP authentication",
        pattern=r"snmp[a-z]{2,10}ANY\s-A\s{1,4}VALUE",
        trigger=LINEAR_EDGE + r"snmp[a-z]+\s",
        example="snmpwalk -v3 -u bob -A ⟦kettle⟧ host",
    ),
    Place(
        name="SNMP privacy",
        pattern=r"snmp[a-z]{2,10}ANY\s-X\s{1,4}VALUE",
        trigger=LINEAR_EDGE + r"snmp[a-z]+\s",
        example="snmpwalk -v3 -u bob -X ⟦kettle⟧ host",
    ),
    Place(
        name="Wi-Fi passwords",
        pattern=r"nmcliANY\spassword\s{1,4}VALUE",
        trigger=LINEAR_EDGE + r"nmcli\s",
        example="nmcli dev wifi connect home password ⟦kettle⟧",
    ),
    Place(
        name="SQL passwords",
        pattern=r"(?i:\bIDENTIFIED\s{1,4}(?:WITH\s{1,4}\w{1,40}\s{1,4})?BY|\b(?:WITH|SET|ENCRYPTED|ROLE"
        r"|USER)\b.{0,100}?\bPASSWORD(?:\s{0,4}=)?)"
        r"\s{1,4}(?i:PASSWORD[ (]{1,4})?N?(?:\\?'(?P<s9>[^']{1,256}?)\\?'|\\?\"(?P<d9>[^\"\\]{1,256}))",
        trigger=r"(?i:\bIDENTIFIED\s+(?:WITH\s+\w+\s+)?BY\s|\bPASSWORD(?:\s*=)?\s+(?:PASSWORD[ (]+)?N?\\?')",
        example="CREATE LOGIN app WITH PASSWORD = N'⟦kettle⟧';",
        kind=kinds.PASSWORD,
    ),
    Place(
        name="SQL passwords without quotes",
        pattern=r"(?i:\bUSER\s{1,4}\w{1,64}\s{1,4}IDENTIFIED\s{1,4}BY)\s{1,4}(?P<u9>[^\s'\";]{1,128})",
        trigger=r"(?i:\bIDENTIFIED\s+BY\s)",
        example="create user app identified by ⟦kettle⟧;",
        kind=kinds.PASSWORD,
    ),
    Place(
        name="PASSWORD()",
        pattern=r"(?i:\bSET\s{1,4}PASSWORD\b.{0,100}?=\s{0,4}PASSWORD)\(\\?'(?P<s9>[^']{1,256}?)\\?'",
        trigger=r"(?i:\bPASSWORD\('|\bPASSWORD\(\\')",
        example="SET PASSWORD FOR 'app'@'%' = PASSWORD('⟦kettle⟧');",
        kind=kinds.PASSWORD,
    ),
    Place(
        name="arguments after a user",
        pattern=r"(?:\bauth\s{0,2}=\s{0,2}\(|HTTP(?:Basic|Digest|Proxy)Auth\(|NetworkCredential\(|BasicAuth\("
        r"|basic_auth\(|basicAuth\("
        r"|UsernamePasswordCredentials\(|UsernamePasswordAuthenticationToken\(|PasswordAuthentication\("
        r"|PSCredential\(|getConnection\([^\"',]{1,80},\s{0,4}|\.login\(|\.authenticate\()"
        r"\\?[\"'][^\"'\\]{1,128}\\?[\"'],\s{0,4}(?=\\?[\"'])VALUE",
        trigger=r"(?:auth\s*=\s*\(|Auth\(|auth\(|Credentials?\(|AuthenticationToken\(|Authentication\("
        r"|getConnection\(|\.login\(|\.authenticate\()[^)]*,\s*\\?[\"']",
        example='requests.get(url, auth=("bob", "⟦kettle⟧"))',
        kind=kinds.PASSWORD,
    ),
    Place(
        name="keys of cryptographic functions",
        pattern=r"(?:jwt\.(?:sign|encode|verify|decode)\([^,()]{1,80},\s{0,4}|[hH]mac\.new\("
        r"|createHmac\([^,()]{1,40},\s{0,4}|Fernet\(|signWith\((?:[^,()\"]{1,40},\s{0,4})?)"
        r"b?(?=\\?[\"'])VALUE",
        trigger=r"(?:jwt\.(?:sign|encode|verify|decode)\([^,()]+,\s*|[hH]mac\.new\(|createHmac\([^,()]+,\s*"
        r"|signWith\((?:[^,()\"]+,\s*)?|Fernet\()b?\\?[\"']",
        example='jwt.encode(claims, "⟦kettle42⟧", algorithm="HS256")',
        kind=kinds.PASSWORD,
        need=Need.DIGITS,
    ),
    Place(
        name="Twilio credentials",
        pattern=r"\bAC[0-9a-f]{32}\\?[\"']?[,:]\s{0,4}\\?[\"']?(?P<u9>[0-9a-f]{32})\b",
        trigger=r"\bAC[0-9a-f]{32}\\?[\"']?[,:]",
        example='Client("AC0123456789abcdef0123456789abcdef", "⟦fedcba98765432100123456789abcdef⟧")',
        kind=SecretKind("twilio", "provider_key"),
    ),
    Place(
        name="Terraform defaults",
        pattern=r"variable\s{1,4}\\?\"[\w-]{0,64}(?:password|passwd|secret|token|api_key|_key|passphrase|pwd"
        r"|pass|credentials)\\?\"\s{0,4}\{.{0,200}?default\s{0,4}=\s{0,4}VALUE",
        trigger=LINEAR_EDGE + r"variable\s+\\*\"[\w-]+\\*\"\s*\{.*default\s*=",
        example='variable "db_password" { default = "⟦kettle⟧" }',
        kind=kinds.PASSWORD,
    ),
    Place(
        name="build fields",
        pattern=r"buildConfigField[ (]{0,2}[\"']String[\"'],\s{0,4}[\"'][\w-]{0,64}(?:PASSWORD|SECRET|TOKEN|KEY"
        r"|PASS|PWD|PASSPHRASE|CREDENTIALS)[\"'],\s{0,4}[\"']\\{1,7}\"(?P<d9>[^\"\\]{1,256})",
        trigger=r"buildConfigField",
        example=r'buildConfigField "String", "API_KEY", "\"⟦kettle⟧\""',
        kind=kinds.PASSWORD,
    ),
    Place(
        name=".pgpass lines",
        pattern=LINE_START
        + r"(?![\w./-]{1,80}\.(?:c|cc|cpp|go|h|java|js|kt|md|php|py|rb|rs|sh|swift|ts|tsx|txt|ya?ml|json):)"
        r"[\w.*-]{1,128}:(?:\d{4,5}|\*):(?:\*|[A-Za-z_][\w-]{0,63}):(?:\*|(?!error|warning|note|info"
        r"|debug)[A-Za-z_][\w-]{0,63}):"
        r"(?P<u9>[^\s\"'\\:]{4,128}(?=\s*$|\\[nr\"]|\"))",
        trigger=r":(?:[0-9]{4,5}|\*):[\w*-]+:[\w*-]+:[^\s:]{4}",
        example="db.example.com:5432:app:bob:⟦kettle⟧",
        kind=kinds.PASSWORD,
    ),
    Place(
        name="Redis logins",
        pattern=r"AUTH\s{1,4}(?:default\s{1,4})?VALUE",
        trigger=r"\bAUTH\s+[^\s]{8}|\\nAUTH\s+[^\s]{8}",
        example="AUTH ⟦k3ttl3K3ttl3x9Zq1w⟧",
        kind=kinds.PASSWORD,
        need=Need.RANDOM,
    ),
    Place(
        name="recovery codes",
        pattern=r"(?i:(?:recovery|backup|scratch|emergency)[ _-]codes?)\\?[\"']?\s{0,2}[:=]\s{0,4}\\?[\"'\[]{0,2}"
        r"(?P<d9>[A-Za-z0-9]{4,12}(?:[\"']?[-, ]{1,2}[\"']?[A-Za-z0-9]{4,12}){0,15})",
        trigger=r"(?i:(?:recovery|backup|scratch|emergency)[ _-]codes?)",
        example="Backup codes: ⟦7529 4984⟧",
        kind=kinds.PASSWORD,
        need=Need.DIGITS,
    ),
    Place(
        name="cookie jars",
        pattern=r"[\w.-]{1,128}(?:\t|\\t)(?:TRUE|FALSE)(?:\t|\\t)/[^\t\\]{0,128}(?:\t|\\t)(?:TRUE|FALSE)(?:\t"
        r"|\\t)\d{1,20}(?:\t|\\t)[^\s\\]{1,128}(?:\t|\\t)"
        r"(?P<u9>[^\s\"'\\]{1,4096})",
        trigger=r"(?:\t|\\t)(?:TRUE|FALSE)(?:\t|\\t)/",
        example=".example.com\tTRUE\t/\tTRUE\t1790000000\tsid\t⟦k3ttle9⟧",
        kind=kinds.COOKIE,
        need=Need.ANY,
    ),
    Place(
        name="cookies in code and archives",
        pattern=r"\b[Cc]ookies\\?[\"']?\s{0,4}[:=]\s{0,4}[\[({]{1,2}(?:[^\]}]{0,200}?[\"']value\\?[\"']\s{0,4}:"
        r"|\s{0,4}\\?[\"'](?!type|items)[\w.-]{1,64}\\?[\"']\s{0,4}:)"
        r"\s{0,4}\\?(?:\"(?P<d9>[^\"\\]{1,4096})|'(?P<s9>[^'\\]{1,4096}))",
        trigger=r"[Cc]ookies\\?[\"']?\s*[:=]\s*[\[({]",
        example="requests.get(url, cookies={'sid': '⟦k3ttle9xyz⟧'})",
        kind=kinds.COOKIE,
        need=Need.ANY,
    ),
    Place(
        name="password hashes",
        pattern=r"\b[\w.-]{1,64}:(?P<u9>\$(?:1|2[abxy]|5|6|7|y|gy|apr1|argon2\w{1,2})\$[^\s:\"'\\]{8,512})",
        trigger=r":\$(?:1|2[abxy]|5|6|7|y|gy|apr1|argon2\w+)\$",
        example="root:⟦$6$kGx1Qp2w$Zs9Tf1Lx3⟧:19000:0:99999:7:::",
        kind=kinds.PASSWORD,
        need=Need.ANY,
    ),
    Place(
        name="credentials as user / password",
        pattern=r"(?i:\bcred(?:ential)?s?):?\s{1,4}[\w.@-]{1,64} ?/ ?VALUE",
        trigger=r"(?i:\bcred(?:ential)?s?):?\s+[\w.@-]+ ?/ ?[^\s]",
        example="credentials: bob / ⟦k3ttle42⟧",
        kind=kinds.PASSWORD,
        need=Need.DIGITS,
    ),
    Place(
        name="cookies of curl",
        pattern=r"curlANY\s(?:-b|--cookie)[ =]{0,3}\\?[\"']?(?P<s9>[\w.%-]{1,128}=[^\s\"'\\]{4,4096})",
        trigger=r"\s(?:-b|--cookie)[ =]*\\*[\"']?[\w.%-]+=",
        example="curl -b '⟦sid=k3ttle9xyz⟧' https://example.com",
        kind=kinds.COOKIE,
        need=Need.ANY,
    ),
)
