"""Names that a survey must know: builtins, variables that hold programs, options that hold shell text, interpreters."""

from __future__ import annotations

import re

BUILTINS = frozenset(
    ". : [ alias bg bind break builtin caller cd command compgen complete compopt continue declare dirs disown echo "
    "enable eval exec exit export false fc fg getopts hash help history jobs kill let local logout mapfile popd printf "
    "pushd pwd read readarray readonly return set shift shopt source suspend test times trap true type typeset ulimit "
    "umask unalias unset wait".split()
)
DECLARATIONS = frozenset("declare typeset local export readonly".split())

PROMPTS = frozenset("PS0 PS1 PS2 PS3 PS4".split())
LOOKUP = re.compile(
    r"PATH|LD_\w+|BASH_ENV|ENV|SHELLOPTS|BASHOPTS|BASH_CMDS|BASH_ALIASES|BASH_FUNC_.*|BASH_LOADABLES_PATH|GIT_EXEC_PATH|GCONV_PATH|DYLD_\w+"
)
COMMAND_VARIABLES = frozenset(
    "PROMPT_COMMAND PAGER GIT_PAGER MANPAGER SYSTEMD_PAGER PSQL_PAGER BAT_PAGER DELTA_PAGER EDITOR VISUAL GIT_EDITOR "
    "GIT_SEQUENCE_EDITOR SUDO_EDITOR FCEDIT GIT_SSH GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_PROXY_COMMAND GIT_ASKPASS "
    "SSH_ASKPASS SUDO_ASKPASS RSYNC_RSH CVS_RSH BROWSER LESSOPEN LESSCLOSE SHELL MAKE PERLDB CC CXX LD "
    "MANROFFOPT".split()
)
SHELL_TEXT_VARIABLES = frozenset({"PROMPT_COMMAND"})

INTERPRETERS = re.compile(
    r"(?:python|pypy|perl|ruby|node|nodejs|php|lua|luajit|tclsh|wish|expect|guile|julia|Rscript|R|ocaml|ghci|groovy|"
    r"jshell|deno|bun|osascript|awk|gawk|mawk|nawk|original-awk|sed|gsed|vim?|nvim|ex|view|ed|emacs|gdb|lldb|dc|make|"
    r"gmake|m4|ipython|irb|vimdiff|rvim|gvim|erl|elixir|sqlite3|psql|mysql|octave|gnuplot|tmux|screen|socat|nc|ncat|rake|scala|kotlin)"
    r"(?:[0-9.]*)(?:\.basic|\.tiny)?"
)
STARTING = re.compile(
    r"system|exec|spawn|popen|subprocess|check_|run\(|call\(|child_process|getline|qx|`|!|\||shell|Command|open3?\b|"
    r"\be\b|EXEC|include|split|respawn|new|dofile|run|\.sh\b|edit\(",
    re.I,
)
READS_CODE = re.compile(
    r"(?:python|pypy|perl|ruby|node|nodejs|php|lua|luajit|tclsh|expect|guile|ed|make|gmake|gdb|m4)[0-9.]*"
)

# Options whose value is a command: `tar --to-command`, `rsync -e`. A dot at the end means the value starts with
# `exec=`.
COMMAND_OPTIONS: dict[str, tuple[str, ...]] = {
    "tar": ("--to-command", "--use-compress-program", "--checkpoint-action.", "--rsh-command", "--info-script",
            "--new-volume-script", "-I", "-F"),
    "bsdtar": ("--use-compress-program",),
    "rsync": ("-e", "--rsh", "--rsync-path"),
    "scp": ("-S",),
    "sftp": ("-S", "-D"),
    "man": ("-P", "--pager", "-H", "--html"),
    "zip": ("-TT", "--unzip-command"),
    "sort": ("--compress-program",),
    "split": ("--filter",),
    "npx": ("-c", "--call"),
    "npm": ("-c", "--call"),
    "nc": ("-e", "-c"),
    "ncat": ("-e", "-c", "--exec", "--sh-exec"),
    "nix-shell": ("--run", "--command"),
    "start-stop-daemon": ("--exec", "-x", "--startas", "-a"),
    "cpio": ("--rsh-command",),
    "dpkg-buildpackage": ("-r",),
    "wget": ("--use-askpass",),
    "git-shell": ("-c",),
}  # fmt: skip
# Letters of options that have a value, where letters may follow each other behind one dash.
VALUED_LETTERS = {
    "tar": "bfgCFHIKLNTVX",
    "rsync": "BefMT@",
    "ssh": "BbcDEeFIiJLlmOoPpQRSWw",
    "scp": "cDFiJloPSX",
    "sftp": "BbcDFiJloPRSsX",
    "man": "CEHLMmPpRrSsTX",
    "nc": "ceIiMmOPpqsTVWwXx",
    "ncat": "cdegGimoPpswx",
    "start-stop-daemon": "acdgIknNPprRsux",
}
SSH_COMMAND_KEYS = re.compile(r"(ProxyCommand|LocalCommand|KnownHostsCommand)\s*[= ]\s*(.*)", re.I | re.S)
GIT_COMMAND_KEYS = re.compile(
    r"alias\..*|core\.(pager|editor|sshcommand|fsmonitor|askpass|gitproxy)|sequence\.editor|diff\.external|pager\..*|"
    r"credential(\..*)?\.helper|.*\.(textconv|clean|smudge|process|cmd|driver|command|program)|gpg(\..*)?\.program|"
    r"uploadpack\.packobjectshook|remote\..*\.(uploadpack|receivepack)|interactive\.difffilter|sendemail\..*cmd",
    re.I,
)
COPIERS = frozenset("cp ln mv install cat dd rsync link scp tee tar cpio objcopy strip upx patchelf xxd base64".split())
LOOKUPS = frozenset("which whereis whence command type".split())
RUNNERS = frozenset("make gmake bmake npm yarn pnpm just ninja rake run-parts ansible-playbook docker tox nox".split())
DESCRIPTOR = re.compile(r"/dev/fd/|/proc/[^/]+/fd/")
DOWNLOADERS = frozenset(("curl", "wget"))
