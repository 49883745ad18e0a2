"""Places of secrets in code: arguments of calls, SQL statements, build files."""

from shiftlog.guard.secrets.detectors import kinds
from shiftlog.guard.secrets.detectors.kinds import SecretKind
from shiftlog.guard.secrets.detectors.place import Place
from shiftlog.guard.secrets.detectors.values import Need

CODE = (
    Place(
        name="SQL passwords",
        pattern=r"(?i:\bIDENTIFIED\s{1,4}(?:WITH\s{1,4}\w{1,40}\s{1,4})?BY|\b(?:WITH|SET|ENCRYPTED|ROLE"
        r"|USER)\b.{0,100}?\bPASSWORD(?:\s{1,4}FOR\s{1,4}\S{1,64})?(?:\s{0,4}=)?)"
        r"\s{1,4}(?i:PASSWORD[ (]{1,4})?N?(?:\\?'(?P<s9>[^']{1,256}?)\\?'|\\?\"(?P<d9>[^\"\\]{1,256}))",
        trigger=r"(?i:\bIDENTIFIED\s+(?:WITH\s+\w+\s+)?BY\s"
        r"|\bPASSWORD(?:\s+FOR\s+[^\s]+)?(?:\s*=)?\s+(?:PASSWORD[ (]+)?N?\\?')",
        example="CREATE LOGIN app WITH PASSWORD = N'⟦kettle⟧';",
        kind=kinds.PASSWORD,
    ),
    Place(
        name="SQL passwords without quotes",
        pattern=r"(?i:\bUSER\s{1,4}\w{1,64}\s{1,4}IDENTIFIED\s{1,4}BY)\s{1,4}(?P<u9>[^\s'\";]{1,128})",
        trigger=r"(?i:\bIDENTIFIED\s+BY\s)",
        hint=r"(?i:\bIDENTIFIED\s+(?:WITH|BY)\s)",
        example="create user app identified by ⟦kettle⟧;",
        kind=kinds.PASSWORD,
    ),
    Place(
        name="arguments after a user",
        pattern=r"(?:\bauth\s{0,2}=\s{0,2}\(|HTTP(?:Basic|Digest|Proxy)Auth\(|NetworkCredential(?:\]::new)?\("
        r"|(?:Set)?BasicAuth\((?:[\w.]{1,24}\{)?"
        r"|basic_auth[( ]|basicAuth\(|Credentials(?:::|\.)new\(|new\s{1,4}Basic\w{0,12}Credentials\("
        r"|UsernamePasswordCredentials\(|UsernamePasswordAuthenticationToken\(|PasswordAuthentication\("
        r"|PSCredential\(|getConnection\([^\"',]{1,80},\s{0,4}|\)?\.login\(|(?:assert|await|return"
        r"|=)\s{1,4}login\(|\.auth\(|\.credentials\(|\.authenticate\(|WiFi\.begin\("
        r"|\bdb\.auth\(|sp_addlogin\s{1,4}N?|simple_bind(?:_s)?\("
        r"|(?:ftp|ssh2?|imap)\w{0,8}_(?:login|auth_password|open)\([^\"',]{1,40},\s{0,4})"
        r"\\?[\"'][^\"'\\]{1,128}\\?[\"'][,:]\s{0,4}(?:Some\()?(?=\\?[\"'])VALUE",
        trigger=r"(?:auth\s*=\s*\(|Auth\(|auth\(|basic_auth |Credentials?(?:\]?(?:::|\.)new)?\("
        r"|AuthenticationToken\(|Authentication\("
        r"|getConnection\(|\blogin\(|\.auth\(|\.credentials\(|\.authenticate\(|WiFi\.begin\(|_login\("
        r"|_auth_password\("
        r"|_open\(|sp_addlogin\s|simple_bind(?:_s)?\()[^)]*[,:]\s*(?:Some\()?\\?[\"']",
        hint=r"(?:auth\s*=\s*\(|Auth\(|auth\(|basic_auth |Credentials?(?:\]?(?:::|\.)new)?\("
        r"|Authentication(?:Token)?\(|getConnection\("
        r"|\blogin\(|\.auth\(|\.credentials\(|\.authenticate\(|WiFi\.begin\(|_login\(|_auth_password\(|_open\("
        r"|sp_addlogin\s|simple_bind)",
        example='requests.get(url, auth=("bob", "⟦kettle⟧"))',
        kind=kinds.PASSWORD,
    ),
    Place(
        name="arguments after a server and a user",
        pattern=r"(?:getConnection|mysqli(?:_connect|_real_connect)?|pg_connect|PDO|\w{0,24}(?:\.|->|::)connect"
        r"|(?:\.|->)real_connect"
        r"|keyring\.set_password|set_password"
        r"|pymysql\.connect)\(\s{0,4}\\?[\"'][^\"'\\]{1,200}\\?[\"'],\s{0,4}\\?[\"'][^\"'\\]{1,128}\\?[\"']"
        r",\s{0,4}(?=\\?[\"'])VALUE",
        trigger=r"(?:getConnection|mysqli\w*|PDO|connect"
        r"|set_password)\(\s*\\?[\"'][^\"']+[\"'],\s*\\?[\"'][^\"']+[\"'],\s*\\?[\"']",
        hint=r"(?:getConnection|mysqli|mysqli_connect|PDO|connect|set_password)\(\s*\\?[\"']",
        example='$mysqli = new mysqli("localhost", "bob", "⟦kettle⟧", "app");',
        kind=kinds.PASSWORD,
    ),
    Place(
        name="passwords as characters",
        pattern=r"(?:\.load\(|\.getKey\(|KeySpec\(|PasswordProtection\(|\.init\("
        r"|\.setKeyEntry\()[^\"]{0,80}?\\?\"(?P<d9>[^\"\\]{4,128})\\?\"\.toCharArray\(\)",
        trigger=r"(?:\.load\(|\.getKey\(|KeySpec\(|PasswordProtection\(|\.init\("
        r"|\.setKeyEntry\().*\"\.toCharArray\(\)",
        hint=r"\.toCharArray\(\)",
        example='keyStore.load(in, "⟦kettle⟧".toCharArray());',
        kind=kinds.PASSWORD,
    ),
    Place(
        name="bytes of keys",
        pattern=r"(?:SymmetricSecurityKey|SigningKey|SecretKeySpec|HMACSHA\d{1,3}"
        r"|SecretKey\w{0,12})\(\s{0,4}(?:[\w.:]{1,40}\()?(?=\\?[\"'])VALUE",
        trigger=r"(?:SecurityKey|SigningKey|SecretKeySpec|HMACSHA[0-9]+|SecretKey\w*)\(\s*(?:[\w.:]+\()?\\?[\"']",
        hint=r"(?:SecurityKey|SigningKey|KeySpec|HMACSHA[0-9]+|SecretKey)",
        example='new SymmetricSecurityKey(Encoding.UTF8.GetBytes("⟦kettle⟧"))',
        kind=kinds.PASSWORD,
    ),
    Place(
        name="keys of cryptographic functions",
        pattern=r"(?:jwt\.(?:sign|encode|verify|decode)\([^,()]{1,80},\s{0,4}|[hH]mac\.new\("
        r"|create(?:Hmac|Cipheriv|Decipheriv|Cipher)\([^,()]{1,40},\s{0,4}|Fernet\("
        r"|signWith\((?:[^,()\"]{1,40},\s{0,4})?|(?:cookieParser|URLSafe\w{0,16}Serializer)\()"
        r"(?:key=)?b?(?=\\?[\"'])VALUE",
        trigger=r"(?:jwt\.(?:sign|encode|verify|decode)\([^,()]+,\s*|[hH]mac\.new\(|create(?:Hmac|Cipher"
        r"|Decipher)\w*\([^,()]+,\s*"
        r"|signWith\((?:[^,()\"]+,\s*)?|Fernet\(|(?:cookieParser|URLSafe\w{0,16}Serializer)\()(?:key=)?b?\\?[\"']",
        hint=r"(?:jwt\.(?:sign|encode|verify|decode)\(|[hH]mac\.new\(|create(?:Hmac|Cipher|Decipher)|signWith\("
        r"|Fernet\(|(?:cookieParser|URLSafe\w{0,16}Serializer)\()",
        example='jwt.encode(claims, "⟦kettle42⟧", algorithm="HS256")',
        kind=kinds.PASSWORD,
        need=Need.DIGITS,
    ),
    Place(
        name="Twilio credentials",
        pattern=r"\bAC[0-9a-f]{32}\\?[\"']?[,:]\s{0,4}\\?[\"']?(?P<u9>[0-9a-f]{32})\b",
        trigger=r"\bAC[0-9a-f]{32}\\?[\"']?[,:]",
        hint=r"\bAC[0-9a-f]{6}",
        example='Client("AC0123456789abcdef0123456789abcdef", "⟦fedcba98765432100123456789abcdef⟧")',
        kind=SecretKind("twilio", "provider_key"),
    ),
    Place(
        name="defaults of properties",
        pattern=r"@Value\(\\?\"\$\{[\w.-]{0,60}(?i:password|secret|token|passphrase"
        r"|api-?key):(?P<u9>[^}\"\\]{4,128})\}",
        trigger=r"@Value\(\\?\"\$\{[\w.-]+:",
        hint=r"@Value\(",
        example='@Value("${db.password:⟦kettle⟧}")',
        kind=kinds.PASSWORD,
    ),
)
