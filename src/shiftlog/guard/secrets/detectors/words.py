"""Word lists that distinguish innocent values from secrets, and splitting identifiers into words.

Decides nothing; `values` and `names` use the lists.
"""

import re

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", re.ASCII)

TYPE_WORDS = frozenset(
    """
    any array bigint binary blob bool boolean buffer byte bytearray bytes char charfield date datetime dict
    double enum file float int integer json list long map nonnull number obj object option optional ptr
    record ref required secretstr securestring self set short static str string struct symbol text tuple
    type uint union uuid varchar vec void
    """.split()
)

STATE_WORDS = frozenset(
    """
    absent accepted active allowed always auto automatic changed check checked compat default denied deleted
    disabled done empty enabled encrypted error expired fail failed failure false files fixed found hashed
    hidden ignore ignored incorrect inherit include invalid keep ldap locked masked match matched mismatch
    mismatched missing never new nil nis none not null off omit on ok okay only open optional passed pending
    plain plaintext present prompt pub public random read readonly redacted refreshed rejected removed
    required reset return returned revoked rotate rotated same-origin same origin saved secure sent sha sss
    skipped stdin strict success successful supported systemd true undefined unchanged unknown unset
    unsupported updated used valid verified weak write wrong yes
    """.split()
)

FUNCTION_WORDS = frozenset(
    """
    a about after again all also an and any are as at be been before being both but by can cannot could did
    do does each for from had has have here how if in into is it its least let may more most must need needs
    no not of on once one or our out please see should so than that the their them then there these they
    this those to too until use used using via was we were what when where which while who why will with
    without would you your
    """.split()
)

# The words of field names, labels and fixtures. A value of such words alone is a label.
LABEL_WORDS = frozenset(
    """
    access account add api app apikey application arg argument args attribute auth authentication
    authorization basic bearer body cfg change changeme char chars character characters class client code
    column comma comment confirm confirmation config content context cookie count create cred creds credential
    credentials current custom data db delete demo digest dummy email end enter env environment eof example
    expected external fake field first foo bar baz forgot form generate get given global grant hash header
    headers hint host id ident identifier input insert internal invalidate item jwt key keyword kind label
    last length literal local login lost mail manager max me min minimum mock my name next node number oauth
    old operator option options owner param parameter params pass passcode passphrase passwd passwort
    password passwords path payload personal phrase placeholder policy prev previous private prompt property
    provider pwd query recover recovery refresh register reload remember repeat replace request reset
    resource result retry role sample save schema scheme scope secret secrets select send server service
    session setting settings show signin signing signup some source start state status stop store strong sub
    submit subject tbd temp test testing title tmp to todo token tokens type unauthorized update url user
    username userpass val value values var variable verify view webhook word xsrf csrf
    """.split()
)

# Parts of identifiers that look like no word.
ABBREVIATIONS = frozenset(
    """
    addr attr auth aws btn cb cert cfg cli cmd cnt conf conn ctx css db dns dst elem env err evt exp ext fd fn fmt fs
    ftp gcp get gpg grpc hash hdr hmac href html http https id idx img impl init io ip jdbc js json jwt kv ldap len
    lhs lib log md msg mysql nginx npm num obj ok os param pg pkg pos postgres prev proc ptr pwd px py qs ref regex
    req res resp ret rhs rpc rs rx sdk sftp sha sm smtp sql src srv ssh ssl std str svc svg sync sys tcp tls tmp ts
    tx txt udp ui uid uri url usr utf util utils uuid val var vm vpn wifi ws xml xsrf yml
    """.split()
)

# Labels beside fields for passwords in other languages: required, forgotten, wrong, invalid, expired, enter, change.
FOREIGN_LABELS = frozenset(
    """
    erforderlich pflichtfeld vergessen falsch eingeben abgelaufen anzeigen wiederholen notwendig leer fehlt unbekannt
    champ obligatoire requis requise incorrect invalide manquant manquante vide saisir modifier afficher inconnu
    campo obligatorio obligatoria requerido requerida incorrecta incorrecto olvidada caducada introducir cambiar falta
    obrigatorio esquecida incorreta alterar mostrar obbligatorio obbligatoria richiesta richiesto errata scaduta
    dimenticata mancante inserire verplicht vereist vergeten onjuist ongeldig ontbreekt verlopen wijzigen
    wymagane wymagany zapomniane haslo puste krav kreves glemt fel saknas ogiltigt pakollinen unohtunut
    """.split()
)

PLAIN_WORDS = TYPE_WORDS | STATE_WORDS | FUNCTION_WORDS | LABEL_WORDS | FOREIGN_LABELS
PROSE_WORDS = FUNCTION_WORDS | frozenset(
    "required invalid incorrect enter must expired missing password passwort passe senha clave token reset".split()
)

# Words that often end with a number: `arg1`, `utf8`, `sha256`.
NUMBERED_WORDS = frozenset(
    """
    aes arg base bcrypt char ecdsa ed field float hmac http int item key line md node oauth page param
    password pbkdf pkcs rsa sample secret sha step str string tls tmp token type uint user utf val value var
    varchar version
    """.split()
)


def split_words(name: str) -> tuple[str, ...]:
    """Split an identifier into lower-case words at case changes, digits and punctuation."""
    return tuple(word.lower() for word in _WORD.findall(name))
