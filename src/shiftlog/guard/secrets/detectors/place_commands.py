"""Places of secrets in commands: flags and arguments of programs, texts piped to them."""

from shiftlog.guard.secrets.detectors import kinds
from shiftlog.guard.secrets.detectors.place import Place
from shiftlog.guard.secrets.detectors.quotes import LINEAR_EDGE
from shiftlog.guard.secrets.detectors.values import Need

# Programs that read a secret from their standard input.
_READER = (
    r"(?:sudo\s{1,4}-\w{0,4}S|(?:sudo\s{1,4})?(?:passwd|smbpasswd|kinit|vncpasswd|cryptsetup|su)\b"
    r"|[\w./: -]{1,80}--pass\w{0,10}-\w{0,4}-?stdin|gh\s{1,4}auth\s{1,4}login|docker\s{1,4}login"
    r"|[\w./-]{2,24}\s{1,4}(?:[\w:-]{1,16}\s{1,4})?secrets?\s{1,4}(?:add|create|import|insert|put|set|new|versions)\b"
    r"|(?:kubectl|oc|docker|podman|aws|az|vault)\s.{0,60}?\b(?:create|new|put|set)[ -]secrets?\b"
    r"|[\w./-]{2,24}\s{1,4}secret:set\b)"
)
_READER_TRIGGER = (
    r"(?:sudo\s|su\b|\w*passwd|kinit|cryptsetup|gh\s+auth|docker\s+login|[\w./: -]+--pass[\w-]*stdin"
    r"|[\w./: -]+\bsecrets?[ :](?:add|create|import|insert|put|set|new|versions)\b"
    r"|(?:kubectl|oc|docker|podman|aws|az|vault)\s.*\b(?:create|new|put|set)[ -]secrets?\b)"
)
_READER_HINT = (
    r"\|\s*(?:sudo|su\s|\w*passwd|kinit|cryptsetup|gh\s|docker\s|kubectl|oc\s|podman|aws\s|az\s|vault)"
    r"|--pass[\w-]*stdin"
    r"|\bsecrets?[ :](?:add|create|import|insert|put|set|new|versions)\b"
)
_ECHO = r"(?:echo|printf)\s{1,4}(?:-[ne]{1,2}\s{1,4}|\\?[\"']%s(?:\\{1,2}n)?\\?[\"']\s{1,4}){0,2}"

COMMANDS = (
    Place(
        name="sshpass",
        pattern=r"sshpass\s{1,4}-p\s{0,4}VALUE",
        trigger=r"sshpass\s+-p",
        example="sshpass -p ⟦hunter⟧ ssh bob@db",
    ),
    Place(
        name="password attached to -p",
        pattern=r"(?:mysql\w{0,12}|mariadb[\w-]{0,12}|7za?|rar|unrar|bcp|sqlcmd|isql)ANY\s-h?[pP]VALUE",
        trigger=r"\s-h?[pP][^\s-]",
        example="mysql -u root -p⟦hunter⟧ app",
    ),
    Place(
        name="password after -p or -P",
        pattern=r"(?:(?:docker|podman|nerdctl|helm registry|oc|az|buildah|skopeo|cf|gh)\s{1,4}login"
        r"|mongo\w{0,10}|cqlsh"
        r"|twine|hydra|medusa|ncrack|sqlcmd|mssql-cli|bcp|isql|svn|security\s{1,4}(?:import|unlock-keychain"
        r"|export)|vsce|ovsx|ftp|lftp"
        r"|ncftp\w{0,4}|mosquitto_\w{3}|rabbitmqadmin|zip|unzip|ipmitool"
        r"|impacket-\w{1,20}|useradd|usermod|ssh-keygen|rdesktop|psexec|PsExec\w{0,6})ANY\s-[pP]\s{1,4}VALUE",
        trigger=r"\s-[pP]\s+[^\s-]",
        example="sqlcmd -S db -U sa -P ⟦hunter⟧",
    ),
    Place(
        name="password beside a user",
        pattern=r"(?<!sudo)(?<!run)(?<!exec)(?<!mysql)(?<!mariadb)(?<!dump)(?<!admin)\s-(?:u|U|x|user"
        r"|username)[ =]{1,2}(?![-\"'$])[^\s\"'$]{1,64}(?:\s{1,4}-{1,2}[\w-]{1,24}"
        r"(?:[ =](?![-\"'])[^\s\"']{1,64}){0,1}){0,4}\s{1,4}-[pP]\s{1,4}VALUE",
        trigger=r"\s-(?:u|U|x|user|username)[ =]+[^\s-].*\s-[pP]\s+[^\s-]",
        hint=r"\s-[pP]\s+[^\s-]",
        example="racadm -r 10.0.0.1 -u root -p ⟦kettle⟧ getsysinfo",
    ),
    Place(
        name="token after -t",
        pattern=r"(?:codecov|surge|netlify|dkron|vsts|tfx)ANY\s-t\s{1,4}VALUE",
        trigger=LINEAR_EDGE + r"(?:codecov|surge|netlify|dkron|vsts|tfx)\s.*-t\s",
        hint=r"\s-t\s",
        example="codecov -t ⟦k3ttl3k3ttl3⟧",
        need=Need.DIGITS,
    ),
    Place(
        name="key after --key or --auth",
        pattern=r"\s--(?:key|auth)[ =]VALUE",
        trigger=r"\s--(?:key|auth)[ =][^\s-]{8}",
        example="gem push a.gem --key=⟦q7Rk2Lw9Zx4T⟧",
        kind=kinds.CLI_API_KEY,
        need=Need.DIGITS,
    ),
    Place(
        name="command that prints a password",
        pattern=r"(?i:pass(?:word|phrase)?[-_]?(?:command|cmd|eval))\\?[\"']?[\s=:,]{1,4}\\?[\"'\[]{0,2}"
        r"(?:echo|printf)\\?[\"']?,?\s{1,4}(?:-n\s{1,4}|\\?[\"']?%s\\?[\"']?\s{1,4})?VALUE",
        trigger=r"(?i:pass(?:word|phrase)?[-_]?(?:command|cmd|eval)).*(?:echo|printf)",
        hint=r"(?i:pass(?:word|phrase)?[-_]?(?:command|cmd|eval))",
        example='restic init --password-command "echo ⟦kettle⟧"',
    ),
    Place(
        name="user and password of a request",
        pattern=r"(?:curl|wget|https?|xh|curlie|ab|etcdctl|jenkins-cli\S{0,8})ANY"
        r"\s(?:-u|--user|-a|--auth|-auth|-A|--proxy-user|-U|--basic-auth)[ =]{0,3}PAIR",
        trigger=r"\s(?:-u|--user|-a|--auth|-auth|-A|--proxy-user|-U"
        r"|--basic-auth)[ =]*\\*[\"']?[^\s:/\"']+[\"']?:[^/\s]",
        hint=r"\s(?:-u|--user|-a|--auth|-auth|-A|--proxy-user|-U|--basic-auth)",
        example="curl -u joe:⟦99837286⟧ https://example.com",
    ),
    Place(
        name="user and password after a flag",
        pattern=r"\s--?(?:auth|basic-auth|login|user-?pass|http-auth|proxy-auth)[ =]{1,2}PAIR",
        trigger=r"\s--?(?:auth|basic-auth|login|user-?pass|http-auth|proxy-auth)"
        r"[ =]+\\*[\"']?[^\s:/\"']+[\"']?:[^/\s]",
        hint=r"\s--?(?:auth|basic-auth|login|user-?pass|http-auth|proxy-auth)[ =]",
        example="crictl pull --auth=bob:⟦kettle⟧ example.com/a",
    ),
    Place(
        name="user and password of a host",
        pattern=r"(?:open|lftp|ftp|sftp|ncftp|connect|govc|vncviewer|rsync|--proxy|-x)ANY[\s\"'=][\w.%-]{1,64}:"
        r"(?P<u9>(?!//)[^\s\"'@/\\]{1,128})@(?=[\w.-]{1,128}(?:[:/\s;\"']|$))",
        trigger=LINEAR_EDGE + r"(?:open|lftp|ftp|sftp|ncftp|connect|govc|vncviewer|rsync|--proxy"
        r"|-x)[ =].*[\w.%-]:[^\s@/]+@[\w.-]",
        hint=r"\w:[^\s@/]+@\w",
        example="lftp -e 'open bob:⟦kettle⟧@ftp.example.org; ls'",
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
        hint=r"\s-U",
        example="smbclient //srv/share -U bob%⟦kettle⟧",
    ),
    Place(
        name="htpasswd -b",
        pattern=r"htpasswd\s{1,4}(?:-(?=\w{0,6}n)\w{0,6}b\w{0,6}"
        r"|-(?!\w{0,6}n)\w{0,6}b\w{0,6}\s{1,4}\S{1,256})\s{1,4}\S{1,64}\s{1,4}VALUE",
        trigger=LINEAR_EDGE + r"htpasswd\s+-",
        example="htpasswd -bc .htpasswd bob ⟦kettle⟧",
    ),
    Place(
        name="openssl pass:",
        pattern=r"\s-(?:pass|passin|passout|srp-pass)\s{1,4}\\?[\"']?pass:VALUE",
        trigger=r"\s-(?:pass|passin|passout|srp-pass)\s+\\*[\"']?pass:",
        hint="",
        example="openssl rsa -in k.pem -passin pass:⟦kettle⟧",
    ),
    Place(
        name="openssl enc -k",
        pattern=r"openssl\s{1,4}(?:enc|aes-[\w-]{1,16}|des3?)\b[^|]{0,200}?\s-k\s{1,4}VALUE",
        trigger=LINEAR_EDGE + r"openssl\s+(?:enc|aes-[\w-]+|des3?)\s",
        example="openssl enc -aes-256-cbc -k ⟦kettle⟧ -in a",
    ),
    Place(
        name="password piped to a program",
        pattern=_ECHO + r"VALUE\\?[\"']?\s{0,4}\|\s{0,4}" + _READER,
        trigger=r"\|\s*" + _READER_TRIGGER,
        hint=_READER_HINT,
        example="echo '⟦kettle⟧' | sudo -S apt update",
    ),
    Place(
        name="password piped twice",
        pattern=_ECHO
        + r"\\?\"(?P<d9>[^\"\\]{4,128}\\{1,2}n[^\"\\]{4,128})(?:\\{1,2}n)?\\?\"\s{0,4}\|\s{0,4}"
        + _READER,
        trigger=r"\|\s*" + _READER_TRIGGER,
        hint=_READER_HINT,
        example=r'echo -e "⟦kettle\nkettle⟧" | passwd bob',
    ),
    Place(
        name="password in a here-string",
        pattern=_READER + r"[^|]{0,100}?<<<\s{0,4}VALUE",
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
        pattern=r"[Pp]?assword.{0,80}?\bsend\s{1,4}(?:--\s{1,4})?\\?\"(?P<d9>[^\"\\]{4,256})",
        trigger=r"assword.*\bsend\s",
        hint=r"assword",
        example='expect "assword:"; send "⟦kettle⟧\\r"',
    ),
    Place(
        name="user and password piped to chpasswd",
        pattern=r"echo\s{1,4}(?:-n\s{1,4})?\\?[\"']?[\w.-]{1,64}:VALUE\\?[\"']?\s{0,4}\|\s{0,4}(?:sudo\s{1,4})?chpasswd\b",
        trigger=r"\|\s*(?:sudo\s+)?chpasswd",
        example='echo "bob:⟦kettle⟧" | chpasswd',
    ),
    Place(
        name="user and password in a here-string",
        pattern=r"chpasswd\b[^|]{0,40}?<<<\s{0,4}\\?[\"']?[\w.-]{1,64}:VALUE",
        trigger=r"<<<",
        example='chpasswd <<< "bob:⟦kettle⟧"',
    ),
    Place(
        name="ConvertTo-SecureString",
        pattern=r"ConvertTo-SecureString\s{1,4}(?:-\w{1,12}\s{1,4}){0,2}VALUE",
        trigger=LINEAR_EDGE + r"ConvertTo-SecureString\s",
        example='ConvertTo-SecureString "⟦kettle⟧" -AsPlainText -Force',
    ),
    Place(
        name="gh secret set",
        pattern=r"gh\s{1,4}secret\s{1,4}setANY\s(?:--body[ =]{1,2}|-b[ =]{0,2})VALUE",
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
        name="password after -p of a login",
        pattern=r"(?:log-?in|sign-?in|conan\s{1,4}user)\b[^|;&]{0,200}?\s-[pP]\s{1,4}VALUE",
        trigger=LINEAR_EDGE + r"(?:log-?in|sign-?in|conan\s+user)\b.*\s-[pP]\s+[^\s-]",
        hint=r"\s-[pP]\s+[^\s-]",
        example="conan user -p ⟦kettle⟧ -r main bob",
    ),
    Place(
        name="login with an address",
        pattern=r"login\s{1,4}\S{1,64}@[\w.-]{1,64}\s{1,4}VALUE",
        trigger=r"\blogin\s+[^\s]+@[\w.-]+\s+[^\s-]",
        hint=r"\blogin\s+[^\s@]+@",
        example="bw login bob@example.org ⟦k3ttle9x⟧",
        need=Need.DIGITS,
    ),
    Place(
        name="here-string after the name of a secret",
        pattern=r"(?i:password|passwd|passphrase|secret|token|credentials?|key|pass|pwd|login"
        r"|auth)\w{0,16}\b[^|<]{0,80}<<<\s{0,4}VALUE",
        trigger=r"<<<",
        example="vercel env add API_TOKEN production <<< ⟦k3ttle9x⟧",
        need=Need.DIGITS,
    ),
    Place(
        name="answers to questions of a package",
        pattern=r"/[\w-]{0,40}pass[\w-]{0,20}\s{1,4}(?:password|string)\s{1,4}VALUE",
        trigger=r"/[\w-]*pass[\w-]*\s+(?:password|string)\s",
        hint=r"pass[\w-]*\s+(?:password|string)\s",
        example="d-i passwd/root-password password ⟦kettle⟧",
    ),
    Place(
        name="values of the registry",
        pattern=r"/v\s{1,4}\S{0,40}(?i:password|passwd|secret|token|_key)\s[^|]{0,60}?/d\s{1,4}VALUE",
        trigger=r"/v\s+[^\s]*(?i:password|passwd|secret|token|_key)\s.*/d\s",
        hint=r"\s/d\s",
        example="reg add HKLM\\x /v DefaultPassword /t REG_SZ /d ⟦kettle⟧",
    ),
    Place(
        name="random arguments of an authorization",
        pattern=r"auth(?:orize|enticate)?(?:-[\w-]{1,24})?(?:\s{1,4}[\w@.-]{1,64}){0,2}?\s{1,4}"
        r"(?P<u9>(?=\S{0,64}\d)(?=\S{0,64}[A-Z])[^\s\"'|;&<>\\]{12,512})",
        trigger=LINEAR_EDGE + r"auth(?:orize|enticate)?(?:-[\w-]+)?\s.*[^\s]{12}",
        hint=r"auth(?:orize|enticate)?(?:-[\w-]*)?\s",
        example="b2 authorize-account 0a1b2c ⟦K9s8Ld7fj3Qm2xZ4⟧",
        need=Need.RANDOM,
    ),
    Place(
        name="texts to encrypt",
        pattern=r"ansible-vault\s{1,4}encrypt_stringANY\s(?=[\"'])VALUE",
        trigger=r"ansible-vault\s+encrypt_string\s",
        example="ansible-vault encrypt_string '⟦kettle⟧' --name db_password",
    ),
    Place(
        name="logins of CVS",
        pattern=r":(?:pserver|ext|gserver):[\w.-]{1,64}:(?P<u9>[^\s@:]{1,128})@",
        trigger=r":(?:pserver|ext|gserver):[\w.-]+:",
        example="cvs -d :pserver:bob:⟦kettle⟧@example.org:/r login",
    ),
    Place(
        name="Windows flag of a password",
        pattern=r"(?:signtool|certutil|importpfx|pvk2pfx)\b[^|]{0,300}?\s[/-]p\w{0,2}\s{1,4}VALUE",
        trigger=LINEAR_EDGE + r"(?:signtool|certutil|importpfx|pvk2pfx)\b.*\s[/-]p\w{0,2}\s",
        hint=r"(?:signtool|certutil|importpfx|pvk2pfx)",
        example="signtool sign /f a.pfx /p ⟦kettle⟧ app.exe",
    ),
    Place(
        name="variables of a pipeline",
        pattern=r"##vso\[task\.setvariable\s[^\]]{0,200}[iI]s[sS]ecret=true[^\]]{0,80}\]VALUE",
        trigger=r"##vso\[task\.setvariable\s",
        example="##vso[task.setvariable variable=db;issecret=true]⟦kettle⟧",
        need=Need.PLAIN,
    ),
    Place(
        name="values given to a secret",
        pattern=r"secrets?[\s:]{1,4}(?:add|create|new|put|set|update)ANY\s--?(?:data|value|body|plaintext"
        r"|literal|text"
        r"|content)[ =]{1,2}VALUE",
        trigger=r"\bsecrets?[\s:]+(?:add|create|new|put|set|update)\s.*--?(?:data|value|body|plaintext|literal|text"
        r"|content)[ =]",
        hint="",
        example="drone secret add --name n --data ⟦kettle⟧ repo",
    ),
    Place(
        name="secrets of a substituted process",
        pattern=r"(?i:key|pass\w{0,10}|secret|token)(?:-file)?[ =][^|<]{0,60}?<\(\s{0,2}(?:echo"
        r"|printf)\s{1,4}(?:-n\s{1,4})?[\"']?(?P<u9>[^\s\"'()\\]{4,256})",
        trigger=r"(?i:key|pass\w*|secret|token)(?:-file)?[ =].*<\(\s*(?:echo|printf)\s",
        hint=r"<\(\s*(?:echo|printf)",
        example="wg set wg0 peer x preshared-key <(echo ⟦kettle⟧)",
    ),
    Place(
        name="short flags of passwords",
        pattern=r"(?:swaksANY\s-ap\s{1,4}|dsclANY\s-passwd\s{1,4}\S{1,64}\s{1,4}|\s--?pin[ =](?=\d))VALUE",
        trigger=r"\bswaks\s.*-ap\s|\bdscl\s.*-passwd\s|\s--?pin[ =]\d{4}",
        hint=r"\bswaks\s|\bdscl\s|\s--?pin[ =]\d{4}",
        example="swaks -au bob -ap ⟦kettle⟧ --server mail",
    ),
    Place(
        name="literals of Kubernetes secrets",
        pattern=r"(?:create\s{1,4}secret)ANY--from-literal[ =][\"']?[\w.-]{1,64}=VALUE",
        trigger=r"--from-literal",
        hint=r"--from-literal",
        example="kubectl create secret generic db --from-literal=whatever=⟦kettle⟧",
    ),
    Place(
        name="secrets set by name",
        pattern=r"(?:dotnet\s{1,4}user-secrets\s{1,4}set\s{1,4}"
        r"|composer\s{1,4}config\s{1,4}(?:-\S{1,20}\s{1,4})?http-basic\.\S{1,80}\s{1,4}"
        r"|rabbitmqctl\s{1,4}(?:add_user|change_password)\s{1,4}"
        r"|poetry\s{1,4}config\s{1,4}http-basic\.\S{1,80}\s{1,4}"
        r"|wpa_passphrase\s{1,4}|sentinel\s{1,4}auth-pass\s{1,4}|mc\s{1,4}(?:alias\s{1,4}set"
        r"|config\s{1,4}host\s{1,4}add)\s{1,4}\S{1,64}\s{1,4}\S{1,128}\s{1,4}"
        r"|pulumi\s{1,4}config\s{1,4}set\s{1,4}--secret\s{1,4}|doppler\s{1,4}secrets\s{1,4}set\s{1,4})"
        r"(?:\"[^\"]{1,128}\"|\S{1,128})\s{1,4}VALUE",
        trigger=r"(?:user-secrets\s+set|http-basic\.\S+|rabbitmqctl\s+(?:add_user|change_password)|wpa_passphrase"
        r"|sentinel\s+auth-pass|mc\s+(?:alias\s+set|config\s+host)|pulumi\s+config\s+set|doppler\s+secrets)\s",
        hint=r"(?:user-secrets|http-basic\.|rabbitmqctl\s|wpa_passphrase|sentinel\s+auth|mc\s+(?:alias\s+set"
        r"|config\s+host)|pulumi\s+config|doppler\s+secrets)",
        example="rabbitmqctl add_user bob ⟦kettle⟧",
    ),
    Place(
        name="tokens given to a program",
        pattern=r"(?:cargo\s{1,4}login|vault\s{1,4}(?:login|operator\s{1,4}unseal)"
        r"|poetry\s{1,4}config\s{1,4}pypi-token\.\S{1,40}"
        r"|snyk\s{1,4}auth|cloudflared\s{1,4}service\s{1,4}install|(?:pro|ua)\s{1,4}attach"
        r"|ngrok\s{1,4}(?:config\s{1,4})?(?:add-)?authtoken"
        r"|[\w-]{2,24}\s{1,4}set\s{1,4}token|rclone\s{1,4}obscure"
        r"|git\s{1,4}config\s{1,4}(?:--\w{1,8}\s{1,4})?[\w.]{1,40}\.(?:token|password))\s{1,4}VALUE",
        trigger=r"(?:cargo\s+login|vault\s+(?:login|operator\s+unseal)|config\s+pypi-token\.\S+|snyk\s+auth"
        r"|service\s+install"
        r"|(?:pro|ua)\s+attach|authtoken|\sset\s+token|rclone\s+obscure"
        r"|git\s+config\s.*\.(?:token|password))\s",
        hint=r"(?:cargo\s+login|vault\s+(?:login|operator)|pypi-token\.|snyk\s+auth|service\s+install|(?:pro"
        r"|ua)\s+attach"
        r"|authtoken\s|\sset\s+token|rclone\s+obscure|git\s+config\s)",
        example="cargo login ⟦cio4Yh2kQm7Zs9Tf1Lx3⟧",
        need=Need.DIGITS,
    ),
    Place(
        name="tokens of registries",
        pattern=r":_(?:authToken|auth|password)(?:\s{1,4}|=)VALUE",
        trigger=r":_(?:authToken|auth|password)[\s=]",
        hint="",
        example="npm config set //npm.example.com/:_authToken ⟦kettle⟧",
    ),
    Place(
        name="values of named secrets",
        pattern=r"(?:llm\s{1,4}keys\s{1,4}set\s{1,4}\S{1,64}ANY--value[ =]"
        r"|bundle\s{1,4}config\s(?:set\s{1,4})?(?:--\w{1,8}\s{1,4})?[\w.:/-]{1,128}\s{1,4}[\w.@-]{1,64}:"
        r"|object\s{1,4}secret,(?:id=[\w-]{1,40},)?data=|schtasksANY\s/(?:rp|p)\s{1,4}|setcookie\s{1,4}"
        r"|Dsonar\.login=)VALUE",
        trigger=r"(?:llm\s+keys\s+set\s|bundle\s+config\s|-object\s+secret,|schtasks\s|-setcookie\s|-Dsonar\.login=)",
        example="qemu-system-x86_64 -object secret,id=s0,data=⟦kettle⟧",
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
        pattern=r"(?:(?:sqlplus|expdp|impdp|sqlldr"
        r"|rman\s{1,4}target)\s{1,4}(?:-\w{1,8}\s{1,4}){0,3}(?:userid=)?[\"']?"
        r"|jdbc:oracle:\w{1,8}:)"
        r"[\w.$#-]{1,64}/(?P<u9>[^\s@\"'\\]{1,128})",
        trigger=r"(?:sqlplus|expdp|impdp|sqlldr|rman\s+target|jdbc:oracle:\w+:)[^/]*/[^\s]",
        hint=r"(?:sqlplus|expdp|impdp|sqlldr|rman\s+target|jdbc:oracle:)",
        example="sqlplus scott/⟦tiger⟧@//db:1521/orcl",
    ),
    Place(
        name="lftp -u",
        pattern=r"lftpANY\s-u\s{1,4}[\"']?[\w.@-]{1,64},VALUE",
        trigger=LINEAR_EDGE + r"lftp\s",
        example="lftp -u bob,⟦kettle⟧ example.com",
    ),
    Place(
        name="cookies of curl",
        pattern=r"curlANY\s(?:-b|--cookie)[ =]{0,3}\\?[\"']?(?P<s9>[\w.%-]{1,128}=[^\s\"'\\]{4,4096})",
        trigger=r"\s(?:-b|--cookie)[ =]*\\*[\"']?[\w.%-]+=",
        hint=r"\s(?:-b|--cookie)",
        example="curl -b '⟦sid=k3ttle9xyz⟧' https://example.com",
        kind=kinds.COOKIE,
        need=Need.ANY,
    ),
)
