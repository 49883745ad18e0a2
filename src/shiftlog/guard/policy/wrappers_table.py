"""The wrappers as tables: their options, how many operands come before the program, what they do without one."""

from __future__ import annotations

import re
from dataclasses import dataclass

from shiftlog.guard.policy.options import Options

SHELLS = frozenset("sh bash dash ash ksh ksh93 mksh lksh yash posh zsh rbash fish csh tcsh hush".split())
MULTI_CALL = frozenset("busybox toybox coreutils uutils sbase-box ubase-box dropbearmulti systemctl kmod lvm "
                       "rustup snap "
                       "xtables-nft-multi xtables-legacy-multi volta-shim".split())  # fmt: skip
LOADER = re.compile(r"ld(-linux[^/]*|-musl[^/]*|64|-[0-9.]+|)\.so(\.[0-9]+)*|ld-musl-[^/]+\.so\.1")


@dataclass(frozen=True, slots=True)
class Plain:
    """A wrapper whose program follows its options and `operands`; without one it does nothing, or starts a shell."""

    options: Options
    operands: int = 0
    starts_shell: bool = False


def _plain(flags: str = "", takes: str = "", long: str = "", *, attached: str = "", operands: int = 0,
           starts_shell: bool = False, assignments: bool = False) -> Plain:  # fmt: skip
    return Plain(Options(flags, takes, attached, tuple(long.split()), assignments), operands, starts_shell)


PLAIN: dict[str, Plain] = {
    "command": _plain("p"),
    "builtin": _plain(),
    "exec": _plain("cl", "a"),
    "time": _plain("apqvV", "fo", "format= output= append portability verbose quiet"),
    "nohup": _plain(),
    "nice": _plain("0123456789", "n", "adjustment="),
    "ionice": _plain("tP", "cnpu", "class= classdata= ignore uid= pid="),
    "chrt": _plain("abdfiormvR", "TPDp", "batch deadline fifo idle other rr reset-on-fork all-tasks max verbose "
                   "sched-runtime= sched-period= sched-deadline=", operands=1),
    "taskset": _plain("ac", "", "all-tasks cpu-list", operands=1),
    "timeout": _plain("vfp", "ks", "foreground preserve-status verbose kill-after= signal=", operands=1),
    "gtimeout": _plain("vfp", "ks", "foreground preserve-status verbose kill-after= signal=", operands=1),
    "stdbuf": _plain("", "ioe", "input= output= error="),
    "setsid": _plain("cfw", "", "ctty fork wait"),
    "linux32": _plain("BFILRSTXZ3v"),
    "linux64": _plain("BFILRSTXZ3v"),
    "i386": _plain("BFILRSTXZ3v"),
    "x86_64": _plain("BFILRSTXZ3v"),
    "unshare": _plain("rfcT", "SGRwl", "fork map-root-user map-current-user map-auto mount-proc kill-child keep-caps "
                      "propagation= setgroups= setuid= setgid= root= wd= map-user= map-group= map-users= map-groups= "
                      "boottime= monotonic= load-interp= mount uts ipc net pid user cgroup time",
                      attached="muinpUCT", starts_shell=True),
    "nsenter": _plain("aFZ", "tSG", "all no-fork target= setuid= setgid= preserve-credentials follow-context mount uts "
                      "ipc net pid user cgroup time root wd wdns", attached="muinpUCTrwW", starts_shell=True),
    "chroot": _plain("", "", "groups= userspec= skip-chdir", operands=1, starts_shell=True),
    "strace": _plain("cCdfFhiknqrtTvVwxyYDAzZ", "abeEoOpPsSuUXI", "output= trace= status= signal= fault= inject= env= "
                     "follow-forks summary summary-only string-limit= user= decode-fds attach= quiet"),
    "ltrace": _plain("bcCfhirStTVL", "aADeFlnopsuwxX", "output= library= demangle"),
    "perf-stat": _plain("aBdgirsvx", "ceCGoPt"),
    "systemd-run": _plain("trGqdPMS", "HMpuE", "scope user system wait pty pipe quiet collect no-block shell same-dir "
                          "unit= property= description= slice= uid= gid= nice= working-directory= setenv= "
                          "service-type= "
                          "on-active= on-boot= on-calendar= timer-property= host= machine= remain-after-exit"),
    "doas": _plain("Lns", "Cau", starts_shell=True),
    "pkexec": _plain("", "u", "user= disable-internal-agent keep-cwd", starts_shell=True),
    "sudo": _plain("ABbEeHiKklnPSsVv", "CDghpRrTtUu", "askpass background bell edit set-home login remove-timestamp "
                   "reset-timestamp list non-interactive preserve-groups stdin shell version validate preserve-env "
                   "close-from= chdir= group= host= prompt= chroot= role= command-timeout= type= other-user= user= "
                   "no-update help", assignments=True),
    "xvfb-run": _plain("adhl", "efnpsw", "auto-servernum auto-display error-file= auth-file= server-num= listen-tcp "
                       "xauth-protocol= server-args= wait="),
    "dbus-run-session": _plain("", "", "config-file= dbus-daemon="),
    "dbus-launch": _plain("", "", "exit-with-session sh-syntax autolaunch="),
    "fakeroot": _plain("uh", "lsib", "lib= faked= save-file= unknown-is-real", starts_shell=True),
    "setpriv": _plain("d", "", "dump no-new-privs reset-env clear-groups keep-groups init-groups reuid= regid= ruid= "
                      "rgid= euid= egid= groups= inh-caps= ambient-caps= bounding-set= securebits= pdeathsig= "
                      "selinux-label= apparmor-profile="),
    "prlimit": _plain("", "op", "pid= output= noheadings raw verbose", attached="cdefilmnqrstuvxy"),
    "numactl": _plain("alHs", "CNPimp", "interleave= membind= cpunodebind= physcpubind= preferred= localalloc all"),
    "unbuffer": _plain("p"),
    "rlwrap": _plain("cEhiInNorRTuUvWxX", "bCDefFgHlMOPqsStwz", attached="aAmp"),
    "catchsegv": _plain(),
    "cpulimit": _plain("bfivz", "lpeP", "limit= pid= exe= path= lazy include-children foreground background verbose"),
    "valgrind": _plain("qvh", "", "tool= leak-check= log-file= quiet verbose"),
    "tini": _plain("svgw", "ep"),
    "dumb-init": _plain("cvsh", "r"),
    "gosu": _plain(operands=1),
    "su-exec": _plain(operands=1),
    "chpst": _plain("vP012", "uUbe/nlLmdofrtc"),
    "softlimit": _plain("", "acdfmoprst"),
    "setuidgid": _plain(operands=1),
    "envdir": _plain(operands=1),
    "direnv": _plain(operands=2),
    "eatmydata": _plain(),
    "torsocks": _plain("iqd", "uaP"),
    "proxychains": _plain("q", "f"),
    "proxychains4": _plain("q", "f"),
    "faketime": _plain("mpf", "", "exclude-monotonic", operands=1),
    "ssh-agent": _plain("cDdks", "aEOPt"),
    "aa-exec": _plain("dhiv", "pn", "profile= namespace= immediate"),
    "runcon": _plain("c", "lrtu", "role= type= user= range=", operands=1),
    "sem": _plain("", "j", "jobs= id= fg bg"),
    "entr": _plain("acdnprsxz"),
    "choom": _plain("", "np", "adjust= pid="),
    "uclampset": _plain("asR", "mMp"),
    "coresched": _plain("v", "dst"),
    "firejail": _plain("", "", "quiet noprofile net= profile= private"),
    "arch": _plain("32e", "d"),
    "caffeinate": _plain("dimsu", "tw"),
    "cargo-watch": _plain(),
}  # fmt: skip

ENV = Options("i0v-", "uCaS", "", ("ignore-environment", "null", "debug", "unset=", "chdir=", "argv0=", "split-string=",
              "block-signal", "default-signal", "ignore-signal", "list-signal-handling"), True)  # fmt: skip
XARGS = Options("0oprtx", "adEILnPs", "eil", ("arg-file=", "delimiter=", "eof", "replace", "max-lines", "max-args=",
                "max-procs=", "max-chars=", "interactive", "no-run-if-empty", "verbose", "exit", "null", "open-tty",
                "show-limits", "process-slot-var="))  # fmt: skip
FIND_VALUES = frozenset(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -lname -ilname -type -xtype -newer -anewer "
    "-cnewer -samefile -mtime -atime -ctime -mmin -amin -cmin -size -user -group -perm -links -maxdepth -mindepth -uid "
    "-gid -inum -fstype -printf -regextype -used".split()
)
SU = Options("flmpPT", "cgGswu", "", ("command=", "session-command=", "shell=", "group=", "supp-group=", "login",
                 "fast",
             "preserve-environment", "pty", "whitelist-environment=", "user="))  # fmt: skip
FLOCK = Options("senuoFvx", "cwE", "", ("shared", "exclusive", "unlock", "nonblock", "nb", "timeout=", "wait=", "close",
                "no-fork", "conflict-exit-code=", "command=", "verbose"))  # fmt: skip
WATCH = Options("bcdegprtwxC", "nqs", "", ("beep", "color", "no-color", "errexit", "chgexit", "precise", "no-rerun",
                "no-title", "no-wrap", "exec", "interval=", "differences", "equexit=", "no-linewrap"))  # fmt: skip
SCRIPT = Options("aefqV", "cOIBToEm", "", ("append", "command=", "return", "flush", "force", "quiet", "echo=",
                 "log-out=",
                 "log-in=", "log-io=", "log-timing=", "output-limit=", "logging-format="), False)  # fmt: skip
PARALLEL = Options("kmXqtu0v", "jPNnLlSaCdIsi", "", ("jobs=", "max-procs=", "max-args=", "sshlogin=", "arg-file=",
                   "colsep=", "delimiter=", "timeout=", "retries=", "delay=", "joblog=", "results=", "tmpdir=",
                   "workdir=",
                   "wd=", "halt=", "load=", "memfree=", "keep-order", "bar", "progress", "eta", "dry-run", "will-cite",
                   "no-notice", "verbose", "line-buffer", "lb", "ungroup", "group", "null", "xargs", "pipe", "quote",
                   "tag", "link", "no-run-if-empty", "shuf", "resume", "silent", "max-replace-args=", "env=",
                   "block="))  # fmt: skip
LOADER_OPTIONS = Options("", "", "", ("library-path=", "inhibit-rpath=", "audit=", "preload=", "argv0=",
                 "inhibit-cache",
                         "glibc-hwcaps-prepend=", "glibc-hwcaps-mask="))  # fmt: skip
SETARCH = Options("BFILRSTXZ3v", "p", "", ("uname-2.6", "addr-no-randomize", "32bit", "fdpic-funcptrs",
                 "mmap-page-zero",
                  "addr-compat-layout", "read-implies-exec", "short-inode", "whole-seconds", "sticky-timeouts",
                  "3gb", "4gb",
                  "verbose", "show"))  # fmt: skip


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
