"""`shiftlog completion`: the completion script of a shell."""

import click
from click.shell_completion import get_completion_class


@click.command(short_help="Print a shell completion script.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that makes SHELL complete commands, options and sessions.

    \b
    Install it:
      eval "$(shiftlog completion bash)"    in ~/.bashrc
      eval "$(shiftlog completion zsh)"     in ~/.zshrc
      shiftlog completion fish > ~/.config/fish/completions/shiftlog.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"There is no completion for {shell}.")
    click.echo(kind(ctx.find_root().command, {}, "shiftlog", "_SHIFTLOG_COMPLETE").source())
