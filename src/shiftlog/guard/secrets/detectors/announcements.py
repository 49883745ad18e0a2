"""The syntax around a name that announces a secret: separators, prefixes of lines, pairs, conversions, prose.

Patterns only; `assignments` uses them.
"""

import re

from shiftlog.guard.secrets.detectors.quotes import QUOTE

DOTTED_START = re.compile(r"(?:[\w-]{1,32}\.){1,4}$", re.ASCII)
NAME = re.compile(
    r"(?P<name>[\w.-]{1,64}?(?:[. ](?:key|token|phrase|codes?))?)(?![\w-])"
    rf"(?P<close>(?:{QUOTE})?[)\]]{{0,2}}\*{{0,2}}(?:\[\\?[\"'][\w-]{{1,40}}\\?[\"']\]){{0,2}}"
    rf"|\[\d*\])(?P<before>[ \t]{{1,4}}(?:(?:as )?string"
    rf"|\[\]byte)(?=[ \t]{{0,4}}=)[ \t]{{0,4}}"
    rf"|[ \t]{{0,16}}(?:(?<=[ \t])[\w:.-]{{1,40}}=\\{{0,7}}\"[^\"<>]{{0,80}}\"[ \t]{{0,2}}){{1,4}}(?=>)"
    rf"|[ \t]{{0,16}})"
    r"(?P<sep>:=|=>|<-|->|(?<=[ ])-value(?=[ ])|[!=]?={1,2}|\?=|\+=|:-|:(?!:)(?:\*\*)?|%3[ADad]|\|\||\?\?|\?:"
    r"|or(?= [\"'])"
    r"|\\t|,(?=[ \t]*\\{0,7}[\"'])|(?<=[\"']),(?=[ ]*`)|,(?=[ \t]*(?:type|default|required|help|action|dest)[ \t]*=)"
    r"|,(?=[ \t]*(?:value|content)[ \t]*[:=])|\((?=\\{0,7}[\"'])|>"
    r"|(?<=[ \t]))"
    r"(?P<after>[ \t]{0,16}(?:(?<=>)<(?:[Vv]alue|string)>)?)",
    re.ASCII | re.IGNORECASE,
)
# What tools put before the lines of a file: signs of diffs and comments, line numbers, file names.
LINE_START = re.compile(
    r"(?:^|\\[nr]|[\"'`])"
    r"(?:[\s>+*#/;|-]{0,16}(?:[\w./-]{1,80}:\d{1,6}[:-]|\d{1,6}(?:[:\t]|\xe2\x94\x82)))?[\s>+*#/;|-]{0,80}"
    r"(?:export |set |env |declare -x |-D|- )?\\{0,7}[\"']?(?:[\w-]{1,32}\.){0,6}$",
    re.ASCII,
)
# Prompts and remarks: words alone before the name.
SAID_START = re.compile(r"(?:^|\\[nr]|[\"'`>#*:+-] {0,4})(?:[A-Z][\w'-]{0,32} |[a-z][\w'-]{0,32} ){1,6}$")
DECLARES = re.compile(
    r"\b(?:private|public|protected|readonly|let|var|const|val|static|final|export|mut|fn|def|func|type|if|case"
    r"|else)\b"
)
LISTED_BEFORE = re.compile(
    r"(?:^|\s)(?:-[DP]|--(?=\w)|--?[A-Za-z][\w-]{0,32}[ =]|[\w.-]{1,64}=[^\s,({]{1,64} |export |(?:put|set|create"
    r"|write|POST|PUT"
    r"|update) (?:[^\s=(]{1,64} ){0,4})"
    r"\\{0,7}[\"']?(?:[\w.-]{1,64}(?:=[^\s,({]{0,64})?,){0,12}(?:[\w-]{1,32}\.){0,6}$",
    re.ASCII,
)
LISTED_AFTER = re.compile(r"[^\s,(){}]{4,128}[ ;][\w.-]{1,64}=[^=\s]", re.ASCII)
LINE_REST = re.compile(r"[ \t\r]*(?:$|[ \t]#|\\{1,4}[nr]|\\{0,7}[\"'`])")
# Calls that set what their first argument names, or give a default for it.
SETTER = re.compile(
    r"\b(?:set|put|fill|type|send_?keys|append|insert|get_?env|get_?property|fetch|env|string)\w{0,24}"
    r"\(\\{0,7}[\"'][#.]?(?:[\w-]{1,32}\.){0,6}$",
    re.I,
)
# A literal in a call that only converts it: `String::from("…")`, `Some("…")`.
CONVERTED = re.compile(
    r"\[\]byte\((?=[\"'`])|(?:(?:new[ ])?(?:[A-Za-z_][\w<>]{0,40}(?:::|\.)){0,4}"
    r"(?:from|new|of|wrap|Some|Ok|String|str|string|bytes|Secret(?:Str|String|Box|Value|Text)?|SecureString|Password"
    r"|valueOf"
    r"|fromString|literal)"
    r"\(){1,3}(?=[@bBrRuUL]?\\{0,7}[\"'])"
)
# Tags and anchors of YAML before a value.
TAGGED = re.compile(r"(?:&[\w-]{1,32}|!!str|!{1,2}[A-Za-z][\w./:-]{1,40}(?=[ ]{1,4}\\{0,7}[\"']))[ ]{1,4}")
TYPED = re.compile(r"[\w.<>\[\]&|'?*, ]{1,60}?\s?=\s?(?=[fFbBrRuU@]{0,2}\\{0,7}[\"'`])", re.ASCII)
# `{"name": "DB_PASSWORD", "value": "…"}`, `<add key="ApiKey" value="…"/>`, `<string name="api_key">…<`
PAIR_BEFORE = re.compile(
    r"add_argument\(\\{0,7}[\"'][\w-]*$|add_option\(\\{0,7}[\"'][\w-]*$|(?:name"
    r"|key)\\{0,7}[\"']?\s{0,4}[:=]\s{0,4}(?:\\{0,7}[\"'])?[\w./:-]*$",
    re.ASCII | re.I,
)
PAIR_AFTER = re.compile(
    r"(?:\\{0,7}[\"']|(?=,))\s{0,4}(?:,?\s{0,4}(?<=[\s,])\\{0,7}[\"']?[\w:]{1,40}\\{0,7}[\"']?\s{0,4}[:=]\s{0,4}"
    r"(?:\\{0,7}[\"'][^\"'\\<>]{0,80}\\{0,7}[\"']|\w{1,40})\s{0,4}){0,3}?"
    r"(?:(?:,\s{0,4}|(?<=[\s\"']))\\{0,7}[\"']?[\w:]{0,24}(?:value|content"
    r"|default)\\{0,7}[\"']?\s{0,4}[:=]\s{0,4}(?=\\{0,7}[\"'])|>(?:<value>)?)",
    re.ASCII | re.I,
)
# `"dbPassword": {"type": "string", "default": "…"}`
DESCRIBED = re.compile(
    r"\{\s{0,4}(?:\\{0,7}[\"'](?!default|value)\w{1,40}\\{0,7}[\"']\s{0,4}:\s{0,4}"
    r"(?:\\{0,7}[\"'][^\"'\\<>]{0,80}\\{0,7}[\"']|\w{1,40}),\s{0,4}){0,3}"
    r"\\{0,7}[\"'](?:default|value)\\{0,7}[\"']\s{0,4}:\s{0,4}(?=\\{0,7}[\"'])"
)
SPACED = re.compile(
    r"(?:ENV|(?P<macro>#define)|setx|set -[a-z]{1,3}|setenv|SetEnv|fastcgi_param|configure set|config set)\s{1,4}"
    r"\\{0,7}\"?(?P<name>[A-Za-z_][\w.-]{1,63})\\{0,7}\"?\s{1,8}(?(macro)(?=L?\\{0,7}\"))"
    r"|(?P<setter>(?:store|key|keystore|db)[Pp]assword)[ ]{1,4}(?=\\{0,7}[\"'])"
    r"|(?:login\s{1,4}\S{1,128}\s{1,4}password|requirepass|masterauth|\w{0,16}bindpw|rootpw"
    r"|\w{0,16}options\s{1,4}password|set-initial-password|(?:user|owner)_pw)\s{1,8}(?:--[\w-]{1,24}\s{1,4}){0,2}",
    re.ASCII,
)
# Prose: `the password is …`, `my api key is …`, `password for admin: …`, `password "…"`, `use token …`
SAID = re.compile(
    r"(?:(?:my|the|your|our|this) key:[ \t]{1,4}"
    r"|(?:pass(?:word|wd|phrase|code)?|(?:api|access|secret|private|auth)[ -]key|token|secret|credentials|key"
    r"|pw)[ \t]{1,4}"
    r"(?:(?P<close>(?=[\"'`]))|is generated for \S{1,80}: {1,4}|(?:is|was)(?: now"
    r"| set to)?:?[ \t]{1,4}(?:<\w{1,10}>)?"
    r"|(?:for|of|to|on)[ \t]{1,4}[\w@.'\"/ -]{1,80}?(?::| is(?: now)?| [=-]| \xe2\x80[\x93\x94])[ \t]{1,4}"
    r"|(?:to|->|\xe2\x86\x92|(?:changed "
    r"|rotated |reset )?from)[ \t]{1,4}"
    r"|(?P<told>(?:[A-Za-z']{1,16}[ \t]{1,4}){0,6}[A-Za-z']{1,16}[ \t]{0,2}:[ \t]{1,4})"
    r"|(?P<bare>)))",
    re.ASCII | re.I,
)
OTHER_PART = re.compile(r"[^;]{0,256};\s?[A-Za-z][A-Za-z ]{1,40}=", re.ASCII)
ESCAPED_END = re.compile(r"(?:%26|%22|&quot;).*")
