"""The dangerous rules: commands that no agent should run, such as `rm -rf /`.

They look at programs and arguments, so quoted text never matches.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from shiftlog.guard.bash.tree import Dyn
from shiftlog.guard.bash.words import HOLE, Arg

SYSTEM_DIRECTORIES = frozenset(
    "/bin /boot /dev /efi /etc /home /lib /lib32 /lib64 /libx32 /lost+found /media /mnt /nix /opt /proc /root /run "
    "/sbin /snap /srv /sys /tmp /usr /var /Applications /Library /System /Users /Volumes /private /cores".split()
)
HARMLESS_DEVICES = re.compile(r"/dev/(null|zero|full|stdout|stderr|stdin|tty|fd/\d+|shm/.*)")
SYSTEMCTL_READS = frozenset("status show cat help is-active is-enabled is-failed list-dependencies list-units".split())
LONGEST_PATH = 4096
DOWNLOAD_RULE = "curl/wget piped to a shell"


def dangerous_rule(name: str, args: Sequence[Arg], home: str | None = None) -> str | None:
    """Return the name of the dangerous rule that a program with these arguments breaks."""
    base = name.rsplit("/", 1)[-1]
    if base == "rm":
        return "rm -rf" if _removes_system(args, home) else None
    if base == "dd":
        return "dd" if any(_is_device(arg) for arg in args) else None
    if base.startswith("mkfs") and (base == "mkfs" or base[4] == "."):
        return "mkfs"
    if base in ("shutdown", "halt", "poweroff"):
        return "shutdown"
    if base == "reboot":
        return "reboot"
    if base == "systemctl":
        return _system_control(args)
    return None


def _system_control(args: Sequence[Arg]) -> str | None:
    for arg in args:
        if arg.value in SYSTEMCTL_READS:
            return None
        if arg.value in ("poweroff", "halt"):
            return "shutdown"
        if arg.value in ("reboot", "kexec"):
            return "reboot"
    return None


def _is_device(arg: Arg) -> bool:
    path = re.sub(r"/+", "/", arg.text)
    return path.startswith("of=/dev/") and not HARMLESS_DEVICES.fullmatch(path[3:])


def _removes_system(args: Sequence[Arg], home: str | None) -> bool:
    recursive = force = False
    operands: list[Arg] = []
    options = True
    for arg in args:
        text = arg.text
        if options and text == "--":
            options = False
        elif options and text.startswith("--"):
            recursive = recursive or (len(text) > 4 and "--recursive".startswith(text))
            force = force or (len(text) > 2 and "--force".startswith(text))
        elif options and text.startswith("-") and len(text) > 1:
            recursive = recursive or "r" in text or "R" in text
            force = force or "f" in text
        else:
            operands.append(arg)
    return recursive and force and any(_is_system(arg, home) for arg in operands)


def _is_system(arg: Arg, home: str | None) -> bool:
    text = arg.text
    if arg.parameter == "HOME" or (arg.word is not None and text.startswith(HOLE) and _starts_at_home(arg)):
        return re.fullmatch(r"(?:/[][.*?!^]*)*", text[1:]) is not None
    if arg.tilde:
        return re.fullmatch(r"~(?:[A-Za-z_][\w.-]*)?(?:/[][.*?!^]*)*", text) is not None
    if (arg.value is None and not arg.glob) or len(text) > LONGEST_PATH:
        return False
    path = re.sub(r"/+", "/", text)
    path = re.sub(r"(/\.)+(?=/|$)", "", path) or "/"
    while re.search(r"/[^/]+/\.\.(?=/|$)", path):
        path = re.sub(r"/[^/]+/\.\.(?=/|$)", "", path, count=1) or "/"
    while path.startswith("/.."):
        path = path[3:] or "/"
    bare = path.rstrip("/")
    if bare in ("", "/*", "/**", "/.*") or bare in SYSTEM_DIRECTORIES or (home and bare == home.rstrip("/")):
        return True
    above = bare.removesuffix("/*")
    return above != bare and above in SYSTEM_DIRECTORIES and above not in ("/tmp", "/home", "/mnt", "/media")


def _starts_at_home(arg: Arg) -> bool:
    parts = [part for part in (arg.word.parts if arg.word else []) if isinstance(part, Dyn) or part.text]
    first = parts[0] if parts else None
    return isinstance(first, Dyn) and first.kind == "param" and first.name == "HOME"
