"""A command in the background of a remote shell that ends while another has the shell."""

from tests.shell.rig import ShellRig


async def check_background(rig: ShellRig) -> None:
    """Let one end in the middle of another's output: each has its own, and its own status."""
    await rig.run('gate="${TMPDIR:-/tmp}/gate-$$"; mkfifo "$gate"')
    begun = await rig.run('read -r x < "$gate"; echo "$x"; exit 5', background=True)
    result = await rig.run('printf one; echo over > "$gate"; sleep 0.5; echo two; rm "$gate"')
    back = await rig.read(begun["command_id"], wait_s=10, wait_for="end")
    assert result["stdout"] == "onetwo"
    assert (back["text"], back["state"], back["exit_code"]) == ("over\n", "finished", 5)
