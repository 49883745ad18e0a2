"""Files that a shell command only shows: cat, head, tail, nl and sed without writing."""

from collections.abc import Iterator

from shiftlog.ingest.readers.shell_actions import simple_commands

MAX_FILES = 32
_READERS = frozenset({"cat", "head", "tail", "nl", "sed"})
_WITH_VALUE = {
    "head": frozenset({"-n", "-c", "--lines", "--bytes"}),
    "tail": frozenset({"-n", "-c", "--lines", "--bytes"}),
    "nl": frozenset({"-b", "-d", "-f", "-h", "-i", "-l", "-n", "-s", "-v", "-w"}),
    "sed": frozenset({"-e", "-f", "--expression", "--file", "-l"}),
}


def files_read(script: str) -> list[str]:
    """Return the files that a script reads by name, each once."""
    if not any(name in script for name in _READERS):
        return []
    found: dict[str, None] = {}
    for words in simple_commands(script):
        name = words[0].text.rpartition("/")[2]
        if name in _READERS and (name != "sed" or not any(_writes(word.text) for word in words[1:])):
            for path in _files(name, [word.text if word.literal else "$" for word in words[1:]]):
                found[path] = None
                if len(found) >= MAX_FILES:
                    return list(found)
    return list(found)


def _writes(flag: str) -> bool:
    return flag.startswith(("-i", "--in-place"))


def _files(name: str, words: list[str]) -> Iterator[str]:
    valued = _WITH_VALUE.get(name, frozenset[str]())
    scripted = name != "sed"
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word in valued:
            at += 1
            scripted = scripted or word in ("-e", "-f", "--expression", "--file")
        elif word.startswith("-") and len(word) > 1:
            continue
        elif not scripted:
            scripted = True  # the first plain word of sed is its script
        elif word not in ("", "-", "$") and "\n" not in word and len(word) < 1024:
            yield word
