"""Places of secrets in lines of files, protocols and notes, and on devices of a network."""

from shiftlog.guard.secrets.detectors import kinds
from shiftlog.guard.secrets.detectors.language.foreign import FOREIGN_NAME
from shiftlog.guard.secrets.detectors.place import LINE_START, Place
from shiftlog.guard.secrets.detectors.quotes import LINEAR_EDGE
from shiftlog.guard.secrets.detectors.values import Need

FILES = (
    Place(
        name="secret key after its access key",
        pattern=r"(?:AKIA|ASIA)[A-Z0-9]{16}\\?[\"']?[\s,;:|]{1,4}\\?[\"']?(?P<u0>[A-Za-z0-9/+]{40})(?![\w/+])",
        trigger=r"(?:AKIA|ASIA)[A-Z0-9]{16}\\?[\"']?[\s,;:|]+\\?[\"']?[A-Za-z0-9/+]{40}",
        hint=r"(?:AKIA|ASIA)[A-Z0-9]{4}",
        example="AKIAJ7Q2M4X6P8R3T5V9 ⟦q7Rk2Lw9Zx4Tn6Vb8Ym3Pc5Jd1Hs0Fg2Kt4Wx6Qz⟧",
        kind=kinds.AWS_SECRET,
        need=Need.ANY,
    ),
    Place(
        name=".pgpass lines",
        pattern=LINE_START
        + r"(?![\w./-]{1,80}\.(?:c|cc|cpp|go|h|java|js|kt|md|php|py|rb|rs|sh|swift|ts|tsx|txt|ya?ml|json):)"
        r"[\w.*-]{1,128}:(?:\d{4,5}|\*):(?:\*|[A-Za-z_][\w-]{0,63}):(?:\*|(?!error|warning|note|info"
        r"|debug)[A-Za-z_][\w-]{0,63}):"
        r"(?P<u9>[^\s\"'\\:]{4,128}(?=\s*$|\\[nr\"]|\"))",
        trigger=r":(?:[0-9]{4,5}|\*):[\w*-]+:[\w*-]+:[^\s:]{4}",
        hint=r":(?:[0-9]{4,5}|\*):[\w*-]",
        example="db.example.com:5432:app:bob:⟦kettle⟧",
        kind=kinds.PASSWORD,
    ),
    Place(
        name="Redis logins",
        pattern=r"(?=[ \t\dA])(?:^|(?<=\\n)|(?<=[\"'>#:/+-]))[ \t\d]{0,8}AUTH\s{1,4}(?:(?!PLAIN"
        r"|LOGIN)[\w.@-]{1,64}\s{1,4})?(?![A-Z][a-z]+\s*$|[A-Z][A-Z_-]*\b)VALUE(?=\s*$|\\[nr\"]|\")",
        trigger=r"\bAUTH\s+[^\s]{4}|\\nAUTH\s+[^\s]{4}",
        hint="",
        example="AUTH ⟦kettle⟧",
        kind=kinds.PASSWORD,
    ),
    Place(
        name="SMTP logins",
        pattern=r"AUTH\s{1,4}(?:PLAIN|LOGIN|XOAUTH2|OAUTHBEARER)\s{1,4}(?![A-Z0-9-]+(?:\s|$))VALUE",
        trigger=r"\bAUTH\s+(?:PLAIN|LOGIN|XOAUTH2|OAUTHBEARER)\s+[^\s]{4}|\\nAUTH\s+[A-Z0-9]+\s+[^\s]{4}",
        hint="",
        example="AUTH PLAIN ⟦AGJvYgBrM3R0bDM=⟧",
        kind=kinds.PASSWORD,
        need=Need.ANY,
    ),
    Place(
        name="IMAP logins",
        pattern=LINE_START + r"[A-Za-z]{0,4}\d{1,6}\s{1,2}LOGIN\s{1,2}\\?\"?[\w.@+-]{1,128}\\?\"?\s{1,2}VALUE",
        trigger=r"[0-9]\s+LOGIN\s",
        example='a001 LOGIN bob "⟦kettle⟧"',
        kind=kinds.PASSWORD,
    ),
    Place(
        name="PASS of mail and files",
        pattern=r"(?=[ \tP])(?:(?<=->|C:|>>|te)\s{1,2}|^)PASS\s{1,2}(?=\S{0,100}[\d])VALUE(?=\s*$|\\[nr\"]|\")",
        trigger=r"(?:--->|C:|quote|>>>)\s*PASS\s|(?m:^)PASS\s[^\s]{6}",
        hint="",
        example="---> PASS ⟦k3ttl3x9⟧",
        kind=kinds.PASSWORD,
        need=Need.DIGITS,
    ),
    Place(
        name="logins of mail relays",
        pattern=LINE_START + r"\[[\w.-]{1,128}\](?::\d{1,5})?\s{1,8}[\w.+-]{1,64}(?:@[\w.-]{1,128})?:"
        r"(?P<u9>[^\s\"'\\:/]{4,128}(?=\s*$|\\[nr\"]|\"))",
        trigger=r"\w\](?::[0-9]+)?\s+[\w.@+-]+:[^\s:/]{4}",
        hint=r"\w\](?::[0-9]+)?\s+[\w.+-]+[@:]",
        example="[smtp.example.com]:587 bob@example.com:⟦kettle⟧",
        kind=kinds.PASSWORD,
    ),
    Place(
        name="address and password",
        pattern=LINE_START + r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,24}){1,4}:(?P<u9>[^\s\"'\\:/]{8,128}(?=[\s,;]|$"
        r"|\\[nr\"]|\"))",
        trigger=r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+:[^\s:/]{8}",
        hint=r"\w@[\w.-]+:[^\s:/]",
        example="bob@example.com:⟦q7Rk2Lw9Zx4T⟧",
        kind=kinds.PASSWORD,
        need=Need.RANDOM,
    ),
    Place(
        name="passwords in other languages",
        pattern=FOREIGN_NAME + r"[\"'`]?\s{0,2}(?:[:=]|\xef\xbc\x9a)\s{0,4}VALUE",
        trigger=FOREIGN_NAME + r"[\"'`]?\s*(?:[:=]|\xef\xbc\x9a)",
        hint="",
        example="Passwort: ⟦kettle⟧",
        kind=kinds.PASSWORD,
    ),
    Place(
        name="tagged words before a secret",
        pattern=r">\s{0,4}[\w ]{0,24}(?i:password|passwd|passphrase|secret|token|(?:api|access)[ _-]?key):?\s{0,2}"
        r"</\w{1,10}>:?\s{0,4}(?:<\w{1,10}[^<>]{0,60}>\s{0,4}){0,2}VALUE",
        trigger=r">\s*[\w ]*(?i:password|passwd|passphrase|secret|token|(?:api|access)[ _-]?key):?\s*</\w+>",
        hint=r"(?i:password|passwd|passphrase|secret|token|(?:api|access)[ _-]?key):?\s*</",
        example="<td>Password</td><td>⟦k3ttle9x⟧</td>",
        kind=kinds.PASSWORD,
        need=Need.DIGITS,
    ),
    Place(
        name="user and password of a login in prose",
        pattern=r"(?i:log ?in|sign ?in|ssh|connect)\s{1,2}(?:with|as|using)\s{1,2}[`\"']?[\w.-]{1,64}:VALUE",
        trigger=r"(?i:log ?in|sign ?in|ssh|connect)\s+(?:with|as|using)\s+[`\"']?[\w.-]+:[^\s]",
        hint=r"(?i:log ?in|sign ?in|ssh|connect)\s+(?:with|as|using)\s+[`\"']?[\w.-]+:",
        example="log in with bob:⟦k3ttle9x⟧ there",
        kind=kinds.PASSWORD,
        need=Need.DIGITS,
    ),
    Place(
        name="static tables of Postfix",
        pattern=r"[\w-]{0,40}passw\w{0,16}\s{0,4}=\s{0,4}static:[^\s:]{1,64}:VALUE",
        trigger=r"passw\w*\s*=\s*static:",
        hint=r"=\s*static:",
        example="smtp_sasl_password_maps = static:bob:⟦kettle⟧",
        kind=kinds.PASSWORD,
    ),
    Place(
        name="secrets said before their name",
        pattern=r"\b(?i:use|try|with|set|enter)\s{1,4}VALUE[\"'`]?\s{1,4}as\s{1,4}(?:(?:the|a|your|my|our"
        r"|new)\s{1,4})?"
        r"(?i:password|passphrase|secret|token|(?:api )?key)\b",
        trigger=r"[^\s]{6}\s+as\s+(?:(?:the|a|your|my|our|new)\s+)?"
        r"(?i:password|passphrase|secret|token|(?:api )?key)\b",
        hint=r"\sas\s+(?:(?:the|a|your|my|our|new)\s+)?(?i:password|passphrase|secret|token|(?:api )?key)\b",
        example="use ⟦q7Rk2Lw9Zx4T⟧ as the password",
        kind=kinds.PASSWORD,
        need=Need.RANDOM,
    ),
    Place(
        name="fetchmail",
        pattern=r"poll\s.{1,160}?\s(?:password|pass)\s{1,4}(?:is\s{1,4})?VALUE",
        trigger=LINEAR_EDGE + r"poll\s.*\spass(?:word)?\s",
        hint="",
        example="poll mail.example.com protocol imap user bob password ⟦kettle⟧",
        kind=kinds.PASSWORD,
    ),
    Place(
        name="chap-secrets",
        pattern=LINE_START + r"(?:\"[\w.@\\-]{1,64}\"|[\w.@\\-]{1,64})\s{1,8}(?:\*"
        r"|[\w.-]{1,64})\s{1,8}VALUE\"?\s{1,8}\*(?=\s*$|\\[nr\"])",
        trigger=r"[\w\"]\s+(?:\*|[\w.-]+)\s+[\"\w][^\s]{3,}\s+\*(?:\s*(?m:$)|\\)",
        hint=r"\w\"?\s+\*(?:\s*(?m:$)|\\)",
        example="bob pptpd ⟦k3ttl3x9⟧ *",
        kind=kinds.PASSWORD,
        need=Need.DIGITS,
    ),
    Place(
        name="rights of Redis",
        pattern=r"(?:user|SETUSER)\s{1,4}[\w.@-]{1,64}\s(?:[\w~+&@:*-]{1,40}\s{1,4}){0,8}>VALUE",
        trigger=r"\b(?:user|SETUSER)\s+[\w.@-]+\s.*>[^\s>=]{4}",
        hint=r"\s>[^\s>=]{4}",
        example="ACL SETUSER bob on >⟦kettle⟧ allkeys",
        kind=kinds.PASSWORD,
    ),
    Place(
        name="secrets of tunnels",
        pattern=r":\s{1,4}(?:PSK|EAP|XAUTH|NTLM|PIN)\s{1,4}(?=\\?\")VALUE",
        trigger=r":\s+(?:PSK|EAP|XAUTH|NTLM|PIN)\s+\\?\"",
        hint=r":\s+(?:PSK|EAP|XAUTH|NTLM|PIN)\s",
        example='bob : EAP "⟦kettle⟧"',
        kind=kinds.PASSWORD,
    ),
    Place(
        name="keys of property lists",
        pattern=r"<key>[\w. -]{0,60}(?i:password|passwd|secret|token|passphrase"
        r"|api_?key)</key>\s{0,8}<string>(?P<u9>[^<]{4,512})</string>",
        trigger=r"(?i:password|passwd|secret|token|passphrase|api_?key)</key>\s*<string>",
        hint="",
        example="<key>apiToken</key><string>⟦kettle⟧</string>",
        kind=kinds.PASSWORD,
    ),
    Place(
        name="elements named by a type",
        pattern=r"<[\w.-]{1,60}\.Secret>(?P<u9>[^<]{4,512})</",
        trigger=r"<[\w.-]+\.Secret>",
        hint="",
        example="<hudson.util.Secret>⟦kettle⟧</hudson.util.Secret>",
        kind=kinds.PASSWORD,
    ),
    Place(
        name="keys that open a vault",
        pattern=r"(?i:unseal|recovery)\s{1,2}(?i:key)\s{1,2}\d{1,2}:\s{1,4}VALUE",
        trigger=r"(?i:(?:unseal|recovery)\s+key)\s+\d+:",
        example="Unseal Key 1: ⟦q7Rk2Lw9Zx4T⟧",
        kind=kinds.PASSWORD,
    ),
    Place(
        name="registry files",
        pattern=LINE_START + r"_auth=VALUE(?=\s*$|\\[nr\"]|\")",
        trigger=r"\b_auth=[^\s]{4}",
        hint="",
        example="_auth=⟦kettle⟧",
        kind=kinds.PASSWORD,
    ),
    Place(
        name="users of servers",
        pattern=r"(?:stats\s{1,4}auth\s{1,4}[\w.@-]{1,64}:|auth_basic_user\s{1,4}[\w.@-]{1,64}:"
        r"|AuthLDAPBindPassword\s{1,4}"
        r"|insecure-password\s{1,4}|ldap_default_authtok\s{0,2}=\s{0,2}"
        r"|sonar\.login\s{0,2}[=:]\s{0,2}|erlang\.cookie\s{0,2}=\s{0,2})VALUE",
        trigger=r"(?:stats\s+auth\s|auth_basic_user\s|AuthLDAPBindPassword\s|insecure-password\s"
        r"|ldap_default_authtok|sonar\.login|erlang\.cookie)",
        hint=r"(?:stats\s+auth\s|auth_basic_user\s|AuthLDAPBind|insecure-password\s|ldap_default_auth|sonar\.login"
        r"|erlang\.cookie)",
        example="stats auth admin:⟦kettle⟧",
        kind=kinds.PASSWORD,
    ),
    Place(
        name="header directives",
        pattern=r"(?:(?:proxy|fastcgi|grpc|uwsgi)_(?:set_header|pass_header)|add_header|more_set_headers"
        r"|RequestHeader\s{1,4}(?:set|add)|(?:set|add)-header)"
        r"\s{1,4}\\?[\"']?[\w-]{0,40}(?i:key|token|secret|password|auth)\\?[\"']?\s{1,4}VALUE",
        trigger=r"(?:_set_header|add_header|RequestHeader\s+(?:set|add)|(?:set|add)-header)\s+\\?[\"']?[\w-]*(?i:key"
        r"|token|secret|password|auth)\\?[\"']?\s",
        hint=r"(?:_set_header|add_header|RequestHeader\s|(?:set|add)-header)",
        example="proxy_set_header X-Api-Key ⟦kettle⟧;",
        kind=kinds.API_KEY,
    ),
    Place(
        name="keys of sections",
        pattern=r"\\?\"\w{0,24}(?i:jwt|signing|encryption"
        r"|security)\w{0,24}\\?\"\s{0,4}:\s{0,4}\{\s{0,4}(?:\\?\"\w{1,40}\\?\"\s{0,4}:\s{0,4}"
        r"\\?\"[^\"]{0,128}\",\s{0,4}){0,3}\\?\"(?i:key)\\?\"\s{0,4}:\s{0,4}(?=\\?\")VALUE",
        trigger=r"(?i:jwt|signing|encryption|security)\w*\\?\"\s*:\s*\{.*\"(?i:key)\\?\"\s*:",
        hint=r"(?i:jwt|signing|encryption|security)\w*\\?\"\s*:\s*\{",
        example='"Jwt": {"Key": "⟦kettle⟧", "Issuer": "x"}',
        kind=kinds.PASSWORD,
    ),
    Place(
        name="protocols of web sockets",
        pattern=r"Sec-WebSocket-Protocol:\s{0,4}(?:[\w.-]{1,40},\s{0,4}){0,4}?(?i:bearer|token|authorization"
        r"|access_token),\s{0,4}VALUE",
        trigger=r"Sec-WebSocket-Protocol:",
        example="Sec-WebSocket-Protocol: bearer, ⟦q7Rk2Lw9Zx4T⟧",
        kind=kinds.BEARER,
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
        pattern=r"[Cc]ookies\\?[\"']?(?:\s{0,4}[:=]"
        r"|(?=\())\s{0,4}[\[({]{1,3}(?:[^\]}]{0,200}?\bvalue(?:\\?[\"'])?\s{0,4}:"
        r"|\s{0,4}\\?[\"'](?!type|items)[\w.-]{1,64}\\?[\"']\s{0,4}:)"
        r"\s{0,4}\\?(?:\"(?P<d9>[^\"\\]{1,4096})|'(?P<s9>[^'\\]{1,4096}))",
        trigger=r"[Cc]ookies\\?[\"']?(?:\s*[:=]\s*[\[({]|\(\[)",
        hint="",
        example="requests.get(url, cookies={'sid': '⟦k3ttle9xyz⟧'})",
        kind=kinds.COOKIE,
        need=Need.ANY,
    ),
    Place(
        name="password hashes",
        pattern=r"[\s:=\"'](?P<u9>\$(?:1|2[abxy]|5|6|7|y|gy|apr1|argon2\w{1,2})\$[^\s:\"'\\]{16,512}"
        r"|\{S?(?:SHA|MD5)\d{0,3}\}[A-Za-z0-9+/]{16,128}={0,2})",
        trigger=r"[\s:=\"'](?:\$(?:1|2[abxy]|5|6|7|y|gy|apr1|argon2\w+)\$[^\s]{8}|\{S?(?:SHA"
        r"|MD5)[0-9]*\}[A-Za-z0-9])",
        example="root:⟦$6$kGx1Qp2w$Zs9Tf1Lx3⟧:19000:0:99999:7:::",
        kind=kinds.PASSWORD,
        need=Need.ANY,
    ),
    Place(
        name="credentials as user / password",
        pattern=r"(?i:(?<![\w/])(?:cred(?:ential)?s?|log ?in|user(?:name)?(?:/pass(?:word)?)?"
        r"|account)):?\s{1,4}[\w.@-]{1,64} ?/ ?VALUE",
        trigger=r"(?:^|[^\w/])(?i:(?:cred(?:ential)?s?|log ?in|user(?:name)?(?:/pass(?:word)?)?"
        r"|account)):?\s+[\w.@-]+ ?/ ?[^\s]",
        hint=r"(?i:\b(?:cred(?:ential)?s?|log ?in|user(?:name)?(?:/pass(?:word)?)?|account)):?\s+[\w.@-]+ ?/",
        example="credentials: bob / ⟦k3ttle42⟧",
        kind=kinds.PASSWORD,
        need=Need.DIGITS,
    ),
    Place(
        name="SNMP authentication",
        pattern=r"(?:snmp[a-z]{2,10}ANY\s-A\s{1,4}|createUser\s{1,4}\S{1,64}\s{1,4}(?:MD5|SHA)\S{0,4}\s{1,4})VALUE",
        trigger=LINEAR_EDGE + r"(?:snmp[a-z]+|createUser)\s",
        hint=r"(?:snmp|createUser\s)",
        example="snmpwalk -v3 -u bob -A ⟦kettle⟧ host",
    ),
    Place(
        name="SNMP communities",
        pattern=r"(?:snmp[a-z]{2,10}ANY\s-c\s{1,4}|r[ow]community6?\s{1,4}|snmp-server\s{1,4}(?:community"
        r"|host\s.{1,60}?)\s{1,4}"
        r"(?:\d\s)?)(?!public\b|private\b|default\b)VALUE",
        trigger=LINEAR_EDGE + r"(?:snmp[a-z]+\s.*-c\s|r[ow]community6?\s|snmp-server\s+(?:community|host)\s)",
        hint=r"(?:snmp|r[ow]community)",
        example="snmp-server community ⟦kettle⟧ RO",
    ),
    Place(
        name="SNMP privacy",
        pattern=r"(?:snmp[a-z]{2,10}ANY\s-X\s{1,4}|createUser\s{1,4}\S{1,64}\s.{1,160}?\s(?:AES"
        r"|DES)\S{0,4}\s{1,4})VALUE",
        trigger=LINEAR_EDGE + r"(?:snmp[a-z]+|createUser)\s",
        hint=r"(?:snmp|createUser\s)",
        example="snmpwalk -v3 -u bob -X ⟦kettle⟧ host",
    ),
    Place(
        name="Wi-Fi passwords",
        pattern=r"(?:nmcliANY\s(?:password|[\w-]{0,24}\.?(?:psk|wep-key\d?|password))\s{1,4}"
        r"|netsh\s{1,4}wlanANY\skey(?:Material)?="
        r"|networksetup\s{1,4}-setairportnetwork\s{1,4}\S{1,16}\s{1,4}\S{1,64}\s{1,4}"
        r"|iwconfigANY\skey\s{1,4}(?:s:)?|WIFI:[^\s]{0,120}?;P:|(?:wpa-psk|wpa-passphrase"
        r"|wireless-key1?)\s{1,4})VALUE",
        trigger=LINEAR_EDGE
        + r"(?:nmcli\s|netsh\s+wlan\s|networksetup\s+-setair|iwconfig\s|WIFI:.*;P:|wpa-p|wireless-key)",
        hint=r"(?:nmcli\s|netsh\s+wlan|networksetup\s+-setair|iwconfig\s|WIFI:|wpa-p|wireless-key)",
        example="nmcli dev wifi connect home password ⟦kettle⟧",
    ),
    Place(
        name="secrets of network devices",
        pattern=r"(?:(?:tacacs|radius)(?:-server)?\s.{0,60}?\bkey|crypto\s{1,4}isakmp\s{1,4}key|key-string"
        r"|neighbor\s{1,4}\S{1,64}\s{1,4}password"
        r"|message-digest-key\s{1,4}\d{1,3}\s{1,4}md5|enable\s{1,4}(?:secret|password)\s{1,4}\d{1,2}"
        r"|username\s{1,4}(?!and|or)\S{1,64}\s(?:privilege\s{1,4}\d{1,2}\s{1,4})?(?:secret|password)"
        r"|plain-text-password-value|pre-shared-key(?:\s{1,4}ascii-text)?)\s{1,4}(?:\d{1,2}\s{1,4})?VALUE",
        trigger=LINEAR_EDGE + r"(?:(?:tacacs|radius)(?:-server)?\s.*\bkey|crypto\s+isakmp\s+key|key-string"
        r"|neighbor\s+\S+\s+password"
        r"|message-digest-key\s+\d+\s+md5|enable\s+(?:secret|password)\s+\d+|username\s+\S+\s.*(?:secret|password)"
        r"|plain-text-password-value|pre-shared-key)\s",
        hint=r"(?:tacacs|radius|isakmp\s+key|key-string|message-digest-key|pre-shared-key|enable\s+(?:secret"
        r"|password)\s+\d"
        r"|neighbor\s+\S+\s+password|username\s+\S+\s+(?:privilege|secret|password)|plain-text-password)",
        example="tacacs-server key ⟦kettle⟧",
    ),
)
