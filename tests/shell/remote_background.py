"""A command in the background of a remote shell that ends while another has the shell."""

from tests.shell.desk import ShellDesk


async def check_background(desk: ShellDesk) -> None:
    """Let one end in the middle of another's output: each has its own, and its own status."""
    await desk.run('gate="${TMPDIR:-/tmp}/gate-$$"; mkfifo "$gate"')
    begun = await desk.run('read -r x < "$gate"; echo "$x"; exit 5', background=True)
    result = await desk.run('printf one; echo over > "$gate"; sleep 0.5; echo two; rm "$gate"')
    back = await desk.read(begun["command_id"], wait_s=10, wait_for="end")
    assert result["stdout"] == "onetwo"
    assert (back["text"], back["state"], back["exit_code"]) == ("over\n", "finished", 5)
