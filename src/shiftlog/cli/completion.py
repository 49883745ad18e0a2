"""`shiftlog completion`: what a shell reads so that it can complete commands, options and sessions."""

import click
from click.shell_completion import get_completion_class


@click.command(short_help="Let your shell complete commands.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script with which SHELL completes commands, options and sessions.

    \b
    Put it to use:
      eval "$(shiftlog completion bash)"    in ~/.bashrc
      eval "$(shiftlog completion zsh)"     in ~/.zshrc
      shiftlog completion fish > ~/.config/fish/completions/shiftlog.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"There is no completion for {shell}.")
    click.echo(kind(ctx.find_root().command, {}, "shiftlog", "_SHIFTLOG_COMPLETE").source())
