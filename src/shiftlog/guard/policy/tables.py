"""Tables of names: builtins, variables and options that hold commands, interpreters, and wrappers with their options.

Data only. `builtins`, `tools` and `wrappers` use them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from shiftlog.guard.policy.options import OptionTable

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
# Files that programs read by themselves and that may hold commands.
STARTUP_FILES = re.compile(
    r"(?:.*/)?(?:hooks/[^/]+|\.git/config|\.?gitconfig|\.config/git/config|\.(?:bash|zsh)rc|\.bash_(?:profile|login|logout|aliases)|"
    r"\.profile|\.z(?:shenv|profile|login|logout)|\.ssh/(?:rc|config|authorized_keys)|\.(?:vim|ex|gdb|lldb)(?:rc|init)|\.envrc|"
    r"sitecustomize\.py|usercustomize\.py|crontab)"
)

# Variables that make programs load code or settings of somewhere else.
LOADING = re.compile(
    r"LD_\w+|HOME|XDG_CONFIG_\w+|PYTHON(?:PATH|STARTUP|HOME|USERBASE|INSPECT|BREAKPOINT)|PERL5(?:OPT|LIB|DB)|"
    r"RUBY(?:OPT|LIB)|NODE_(?:OPTIONS|PATH)|GIT_(?:CONFIG\w*|DIR|EXEC_PATH|TEMPLATE_DIR)|GCC_EXEC_PREFIX|"
    r"COMPILER_PATH|_?JAVA_\w*OPTIONS|CLASSPATH|LUA_\w+|R_(?:PROFILE|ENVIRON)\w*|VIMINIT|EXINIT|MAKE(?:FLAGS|FILES)|"
    r"BASH_ENV|ENV|ZDOTDIR|TCLLIBPATH|OPENSSL_CONF|GCONV_PATH|INPUTRC"
)
INTERPRETERS = re.compile(
    r"(?:python|pypy|perl|ruby|node|nodejs|php|lua|luajit|tclsh|wish|expect|guile|julia|Rscript|R|ocaml|ghci|groovy|"
    r"jshell|deno|bun|osascript|awk|gawk|mawk|nawk|original-awk|sed|gsed|vim?|nvim|ex|view|ed|emacs|gdb|lldb|dc|make|"
    r"gmake|m4|ipython|irb|vimdiff|rvim|gvim|erl|elixir|sqlite3|psql|mysql|octave|gnuplot|tmux|screen|socat|nc|ncat|rake|scala|kotlin)"
    r"(?:[0-9.]*)(?:\.basic|\.tiny)?"
)
STARTING = re.compile(
    r"system|exec|spawn|popen|subprocess|check_|run\(|call\(|child_process|getline|qx|`|!|\||shell|Command|open3?\b|"
    r"\be\b|EXEC|include|split|respawn|new|dofile|run|\.sh\b|edit\(|copy|symlink|rename|syscmd|call-process",
    re.I,
)
READS_CODE = re.compile(
    r"(?:python|pypy|perl|ruby|node|nodejs|php|lua|luajit|tclsh|expect|guile|ed|make|gmake|gdb|m4)[0-9.]*"
)

# Options whose value is a command: `tar --to-command`, `rsync -e`. After a trailing dot only a value that starts with
# `exec=` is one.
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
    "dpkg-architecture": ("-c", "--command"),
    "tcpdump": ("-z",),
    "prove": ("-e", "--exec"),
    **dict.fromkeys(("gcc", "g++", "cc", "c++"), ("-wrapper",)),
}  # fmt: skip
# Option letters that take a value, for programs that allow several letters after one dash.
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
# Commands that print one path without blanks, and those that print settings for `eval`; by their first words.
PLACES = frozenset({("pwd",), ("git", "rev-parse", "--show-toplevel")})
PRINTERS = frozenset(
    tuple(words.split())
    for words in (
        "ssh-agent", "ssh-agent -s", "pyenv init", "rbenv init", "nodenv init", "jenv init", "conda shell.bash hook",
        "micromamba shell hook", "brew shellenv", "opam env", "fnm env", "mise activate", "mise env", "starship init",
        "zoxide init", "direnv hook", "dircolors", "keychain", "luarocks path", "minikube docker-env", "minikube -p",
        "docker-machine env", "poetry env activate", "kubectl completion", "helm completion", "gh completion",
        "npm completion", "pip completion", "docker completion",
        "register-python-argcomplete",
        "/opt/homebrew/bin/brew shellenv", "/home/linuxbrew/.linuxbrew/bin/brew shellenv",
    )
)  # fmt: skip
# Programs that change no file, so that the names of files in the same command are not its own work.
QUIET = frozenset(
    "find seq fd fdfind ls xargs sort uniq head tail grep egrep fgrep wc cd echo pwd true test [ tac shuf sh "
    "bash".split()
)
# Programs that run shell text which others type or send to them.
TERMINALS = frozenset(("tmux", "screen"))
LISTERS = frozenset("find fd fdfind ls seq".split())
LINE_FILTERS = frozenset("sort uniq head tail grep tac shuf".split())
BRANCHES = frozenset({("git", "branch", "--show-current"), ("git", "rev-parse", "--abbrev-ref", "HEAD")})
# Commands that print one word of letters and digits, or nothing.
ONE_WORD = frozenset(
    tuple(words.split())
    for words in (
        "uname -s", "uname -m", "uname -r", "uname -p", "arch", "nproc", "whoami", "id -u", "id -g", "id -un", "id -gn",
        "git rev-parse HEAD", "git rev-parse --short HEAD", "dpkg --print-architecture", "getconf LONG_BIT",
        "getconf _NPROCESSORS_ONLN",
    )
)  # fmt: skip
DATE_FORMAT = re.compile(r"\+(?=%)(?:%[-_0^#]?[A-DF-NP-Za-mo-su-y]|[\w.:-])+", re.A)
LOOKUPS = frozenset("which whereis whence command type".split())
FINDERS = frozenset({("which",), ("command", "-v"), ("type", "-P")})  # they print the path of a program, or nothing
RUNNERS = frozenset("make gmake bmake npm yarn pnpm just ninja rake run-parts ansible-playbook docker tox nox".split())
READS_COMMANDS = RUNNERS | frozenset(("crontab", "kubectl", "podman"))  # from their standard input
# Programs that run code of a project or of a package which no argument names as a file.
BUILDERS = frozenset(
    "cargo go mvn gradle bazel bazelisk meson scons waf ant sbt lein mix stack cabal dotnet swift zig composer cmake "
    "ctest invoke fab foreman honcho overmind pip pip3 pipx uv uvx npx bunx pre-commit crontab emacsclient kubectl "
    "podman nerdctl poetry pdm hatch rye pipenv conda mamba java ansible terraform tofu task logrotate supervisord "
    "systemctl service dpkg apt apt-get aptitude yum dnf apk rpm ssh".split()
)
SEDS = frozenset(("sed", "gsed"))
FILTERS = SEDS | frozenset(("awk", "gawk", "mawk", "nawk", "original-awk"))  # their operands are data
# Options whose value is a file of code, for programs whose operands are data.
CODE_OPTIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(FILTERS, ("-f", "--file")),
    **dict.fromkeys(("ssh", "scp", "sftp"), ("-F",)),
    "cmake": ("-P",),
}
# Subcommands that start nothing of another one's name. A program's own names come before its aliases.
SUBCOMMANDS: dict[str, frozenset[str]] = {
    "git": frozenset(
        "add am apply archive blame branch cat-file checkout cherry-pick clean clone commit config describe diff "
        "check-ignore check-ref-format cherry commit-tree count-objects diff-index fsck gc hash-object "
        "diff-tree fetch for-each-ref format-patch grep init log ls-files ls-remote ls-tree merge merge-base mv "
        "name-rev notes pull push range-diff read-tree reflog remote reset restore rev-list rev-parse revert rm "
        "shortlog show show-ref sparse-checkout stash status switch symbolic-ref tag update-index update-ref "
        "verify-commit worktree write-tree".split()
    ),
    "docker": frozenset(
        "attach build buildx builder commit container context cp diff events export history image images import info "
        "inspect kill load login logout logs manifest network pause port ps pull push rename restart rm rmi save "
        "search start stats stop system tag top unpause update version volume wait".split()
    ),
}
# Subcommands that start a program of any name in a container.
INSIDE: dict[str, frozenset[str]] = {"docker": frozenset(("run", "exec", "create", "compose"))}
# Options before the subcommand whose value is the next word.
GLOBAL_VALUES: dict[str, frozenset[str]] = {
    "git": frozenset(
        "-C -c --git-dir --work-tree --namespace --exec-path --config-env --super-prefix --attr-source".split()
    ),
    "docker": frozenset("-H --host -c --context --config -l --log-level --tlscacert --tlscert --tlskey".split()),
}
MAKES = frozenset(("make", "gmake", "bmake"))
DESCRIPTOR = re.compile(r"/dev/fd/|/proc/[^/]+/fd/")
DOWNLOADERS = frozenset(("curl", "wget"))

SHELLS = frozenset("sh bash dash ash ksh ksh93 mksh lksh yash posh zsh rbash fish csh tcsh hush".split())
MULTI_CALL = frozenset("busybox toybox coreutils uutils sbase-box ubase-box dropbearmulti systemctl kmod lvm "
                       "rustup snap "
                       "xtables-nft-multi xtables-legacy-multi volta-shim".split())  # fmt: skip
LOADER = re.compile(r"ld(-linux[^/]*|-musl[^/]*|64|-[0-9.]+|)\.so(\.[0-9]+)*|ld-musl-[^/]+\.so\.1")


# Subcommands by which a tool prints settings for the shell that is named after them.
HOOKS = frozenset(
    "init hook activate env shellenv completion completions generate-shell-completion --generate-shell-completion "
    "shell-init shell-hook".split()
)
# Programs that print files or their arguments.
TEXT_TOOLS = BUILTINS.union(
    COPIERS, QUIET, LISTERS, LINE_FILTERS, DOWNLOADERS,
    "cut tr rev nl paste join fold fmt pr column expand unexpand bat batcat more less zcat gzip bzip2 bzcat xz xzcat "
    "zstd zstdcat jq yq strings od hexdump base32 openssl gpg envsubst iconv diff cmp comm split git docker".split(),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Wrapper(OptionTable):
    """A wrapper whose program follows its options and `operands`; without a program it may start a shell."""

    operands: int = 0
    starts_shell: bool = False


WRAPPERS: dict[str, Wrapper] = {
    "command": Wrapper("p"),
    "exec": Wrapper("cl", "a"),
    "time": Wrapper("apqvV", "fo", "format= output= append portability verbose quiet"),
    "nice": Wrapper("0123456789", "n", "adjustment="),
    "ionice": Wrapper("tP", "cnpu", "class= classdata= ignore uid= pid="),
    "chrt": Wrapper(
        "abdfiormvR", "TPDp",
        "batch deadline fifo idle other rr reset-on-fork all-tasks max verbose sched-runtime= sched-period= "
        "sched-deadline=",
        operands=1,
    ),
    "taskset": Wrapper("ac", "", "all-tasks cpu-list", operands=1),
    "stdbuf": Wrapper("", "ioe", "input= output= error="),
    "setsid": Wrapper("cfw", "", "ctty fork wait"),
    "unshare": Wrapper(
        "rfcT", "SGRwl",
        "fork map-root-user map-current-user map-auto mount-proc kill-child keep-caps propagation= setgroups= "
        "setuid= setgid= root= wd= map-user= map-group= map-users= map-groups= boottime= monotonic= load-interp= "
        "mount uts ipc net pid user cgroup time",
        attached="muinpUCT", starts_shell=True,
    ),
    "nsenter": Wrapper(
        "aFZ", "tSG",
        "all no-fork target= setuid= setgid= preserve-credentials follow-context mount uts ipc net pid user cgroup "
        "time root wd wdns",
        attached="muinpUCTrwW", starts_shell=True,
    ),
    "chroot": Wrapper("", "", "groups= userspec= skip-chdir", operands=1, starts_shell=True),
    "strace": Wrapper(
        "cCdfFhiknqrtTvVwxyYDAzZ", "abeEoOpPsSuUXI",
        "output= trace= status= signal= fault= inject= env= follow-forks summary summary-only string-limit= user= "
        "decode-fds attach= quiet",
    ),
    "ltrace": Wrapper("bcCfhirStTVL", "aADeFlnopsuwxX", "output= library= demangle"),
    "perf-stat": Wrapper("aBdgirsvx", "ceCGoPt"),
    "systemd-run": Wrapper(
        "trGqdPMS", "HMpuE",
        "scope user system wait pty pipe quiet collect no-block shell same-dir unit= property= description= slice= "
        "uid= gid= nice= working-directory= setenv= service-type= on-active= on-boot= on-calendar= timer-property= "
        "host= machine= remain-after-exit",
    ),
    "doas": Wrapper("Lns", "Cau", starts_shell=True),
    "pkexec": Wrapper("", "u", "user= disable-internal-agent keep-cwd", starts_shell=True),
    "sudo": Wrapper(
        "ABbEeHiKklnPSsVv", "CDghpRrTtUu",
        "askpass background bell edit set-home login remove-timestamp reset-timestamp list non-interactive "
        "preserve-groups stdin shell version validate preserve-env close-from= chdir= group= host= prompt= chroot= "
        "role= command-timeout= type= other-user= user= no-update help",
        assignments=True,
    ),
    "xvfb-run": Wrapper(
        "adhl", "efnpsw",
        "auto-servernum auto-display error-file= auth-file= server-num= listen-tcp xauth-protocol= server-args= "
        "wait=",
    ),
    "dbus-run-session": Wrapper("", "", "config-file= dbus-daemon="),
    "dbus-launch": Wrapper("", "", "exit-with-session sh-syntax autolaunch="),
    "fakeroot": Wrapper("uh", "lsib", "lib= faked= save-file= unknown-is-real", starts_shell=True),
    "setpriv": Wrapper(
        "d", "",
        "dump no-new-privs reset-env clear-groups keep-groups init-groups reuid= regid= ruid= rgid= euid= egid= "
        "groups= inh-caps= ambient-caps= bounding-set= securebits= pdeathsig= selinux-label= apparmor-profile=",
    ),
    "prlimit": Wrapper("", "op", "pid= output= noheadings raw verbose", attached="cdefilmnqrstuvxy"),
    "numactl": Wrapper("alHs", "CNPimp", "interleave= membind= cpunodebind= physcpubind= preferred= localalloc all"),
    "unbuffer": Wrapper("p"),
    "rlwrap": Wrapper("cEhiInNorRTuUvWxX", "bCDefFgHlMOPqsStwz", attached="aAmp"),
    "cpulimit": Wrapper(
        "bfivz", "lpeP",
        "limit= pid= exe= path= lazy include-children foreground background verbose",
    ),
    "tini": Wrapper("svgw", "ep"),
    "dumb-init": Wrapper("cvsh", "r"),
    "chpst": Wrapper("vP012", "uUbe/nlLmdofrtc"),
    "softlimit": Wrapper("", "acdfmoprst"),
    "direnv": Wrapper(operands=2),
    "torsocks": Wrapper("iqd", "uaP"),
    "faketime": Wrapper("mpf", "", "exclude-monotonic", operands=1),
    "ssh-agent": Wrapper("cDdks", "aEOPt"),
    "aa-exec": Wrapper("dhiv", "pn", "profile= namespace= immediate"),
    "runcon": Wrapper("c", "lrtu", "role= type= user= range=", operands=1),
    "sem": Wrapper("", "j", "jobs= id= fg bg"),
    "entr": Wrapper("acdnprsxz"),
    "choom": Wrapper("", "np", "adjust= pid="),
    "uclampset": Wrapper("asR", "mMp"),
    "coresched": Wrapper("v", "dst"),
    "firejail": Wrapper("", "", "quiet noprofile net= profile= private"),
    "arch": Wrapper("32e", "d"),
    "caffeinate": Wrapper("dimsu", "tw"),
    "logsave": Wrapper("asv", operands=1),
    "ccache": Wrapper(
        "cCpsvVhzx", "dFMok",
        "cleanup clear show-stats zero-stats show-config version help dir= set-config= max-size=",
    ),
    "sshpass": Wrapper("ehvV", "dfpP"),
    "cgexec": Wrapper("b", "g", "sticky"),
    "gdbserver": Wrapper("", "", "once multi wrapper= debug", operands=1),
    "openvt": Wrapper("efluvw", "c", "exec force login user verbose wait console="),
    "systemd-inhibit": Wrapper("", "", "what= who= why= mode= list no-pager no-legend no-ask-password"),
    "systemd-cat": Wrapper("h", "tp", "identifier= priority= stderr-priority= level-prefix= namespace="),
    **dict.fromkeys(("builtin", "nohup", "catchsegv", "eatmydata", "cargo-watch"), Wrapper()),
    **dict.fromkeys(("chronic", "ifne", "zrun", "torify", "fakechroot"), Wrapper("env")),
    **dict.fromkeys(("sccache", "distcc", "bear"), Wrapper("a", "o", "show-stats append output= version help")),
    **dict.fromkeys(("gosu", "su-exec", "setuidgid", "envdir"), Wrapper(operands=1)),
    **dict.fromkeys(("linux32", "linux64", "i386", "x86_64"), Wrapper("BFILRSTXZ3v")),
    **dict.fromkeys(("proxychains", "proxychains4"), Wrapper("q", "f")),
    **dict.fromkeys(
        ("timeout", "gtimeout"),
        Wrapper("vfp", "ks", "foreground preserve-status verbose kill-after= signal=", operands=1),
    ),
}  # fmt: skip

ENV = OptionTable(
    "i0v-", "uCaS",
    "ignore-environment null debug unset= chdir= argv0= split-string= block-signal default-signal ignore-signal "
    "list-signal-handling",
    assignments=True,
)  # fmt: skip
XARGS = OptionTable(
    "0oprtx", "adEIJLnPRsS",
    "arg-file= delimiter= eof replace max-lines max-args= max-procs= max-chars= interactive no-run-if-empty verbose "
    "exit null open-tty show-limits process-slot-var=",
    attached="eil",
)  # fmt: skip
FIND_VALUES = frozenset(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -lname -ilname -type -xtype -newer -anewer "
    "-cnewer -samefile -mtime -atime -ctime -mmin -amin -cmin -size -user -group -perm -links -maxdepth -mindepth -uid "
    "-gid -inum -fstype -printf -regextype -used".split()
)
SU = OptionTable(
    "flmpPT", "cgGswu",
    "command= session-command= shell= group= supp-group= login fast preserve-environment pty whitelist-environment= "
    "user=",
)  # fmt: skip
FLOCK = OptionTable(
    "senuoFvx", "cwE",
    "shared exclusive unlock nonblock nb timeout= wait= close no-fork conflict-exit-code= command= verbose",
)  # fmt: skip
WATCH = OptionTable(
    "bcdegprtwxC", "nqs",
    "beep color no-color errexit chgexit precise no-rerun no-title no-wrap exec interval= differences equexit= "
    "no-linewrap",
)  # fmt: skip
SCRIPT = OptionTable(
    "aefqV", "cOIBToEm",
    "append command= return flush force quiet echo= log-out= log-in= log-io= log-timing= output-limit= "
    "logging-format=",
)  # fmt: skip
PARALLEL = OptionTable(
    "kmXqtu0v", "jPNnLlSaCdIsi",
    "jobs= max-procs= max-args= sshlogin= arg-file= colsep= delimiter= timeout= retries= delay= joblog= results= "
    "tmpdir= workdir= wd= halt= load= memfree= keep-order bar progress eta dry-run will-cite no-notice verbose "
    "line-buffer lb ungroup group null xargs pipe quote tag link no-run-if-empty shuf resume silent "
    "max-replace-args= env= block=",
)  # fmt: skip
LOADER_OPTIONS = OptionTable(
    "", "",
    "library-path= inhibit-rpath= audit= preload= argv0= inhibit-cache glibc-hwcaps-prepend= glibc-hwcaps-mask=",
)  # fmt: skip
SETARCH = OptionTable(
    "BFILRSTXZ3v", "p",
    "uname-2.6 addr-no-randomize 32bit fdpic-funcptrs mmap-page-zero addr-compat-layout read-implies-exec "
    "short-inode whole-seconds sticky-timeouts 3gb 4gb verbose show",
)  # fmt: skip


BWRAP_ONE = frozenset(
    "--dev --proc --tmpfs --mqueue --dir --chdir --unsetenv --uid --gid --hostname --lock-file --sync-fd --exec-label "
    "--file-label --cap-add --cap-drop --seccomp --add-seccomp-fd --info-fd --json-status-fd --block-fd "
    "--userns --userns2 "
    "--pidns --userns-block-fd --remount-ro --size --perms --argv0 --overlay-src --tmp-overlay --ro-overlay "
    "--args".split()
)
BWRAP_TWO = frozenset(
    "--bind --bind-try --dev-bind --dev-bind-try --ro-bind --ro-bind-try --symlink --setenv --file --bind-data "
    "--ro-bind-data --chmod --bind-fd --ro-bind-fd".split()
)
