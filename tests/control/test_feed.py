"""What the command line is told of an output that goes on while it is told."""

from pathlib import Path

from shiftlog.control.feed import Feed, Following, Item
from shiftlog.guard.secrets.redactor import Redactor
from shiftlog.shell.outputs.command_output import CommandOutput
from shiftlog.shell.outputs.keeper import OutputKeeper


class Writing(Feed):
    """A feed during each of whose items a child that a command left behind writes one more line."""

    def __init__(self, output: CommandOutput) -> None:
        super().__init__()
        self.told: list[str] = []
        self._output = output

    async def put(self, item: Item) -> None:
        self.told.append(item["text"])
        self._output.write("stdout", b"and more\n")


async def test_nobody_waits_for_a_child_that_writes_without_end(tmp_path: Path) -> None:
    output = OutputKeeper(tmp_path, Redactor()).begin("4c82-1_local#1")
    feed = Writing(output)
    following = Following(feed, output)
    output.write("stdout", b"begun\n")
    output.finish(streams_open={"stdout"})
    await following.finish()
    await feed.aclose()
    assert feed.told == ["begun\n"]
