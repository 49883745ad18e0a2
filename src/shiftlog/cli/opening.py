"""`shiftlog open`: opens the page in the browser with a link that the daemon issues."""

import os
import sys

import click

from shiftlog.cli.connecting import json_option, open_client, resolve_session
from shiftlog.cli.screen.output import Printer, print_json

SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME")


@click.command("open", short_help="Open the page in the browser.")
@click.argument("session", required=False)
@click.option("--print", "only_print", is_flag=True, help="Print the link instead of starting a browser.")
@json_option
def open_(session: str | None, only_print: bool, as_json: bool) -> None:
    """Open the page in the browser: all sessions, or only SESSION.

    The page is served on this machine only. The link works once, within a minute, and gives the browser a cookie for
    a day; run the command again for another browser.

    \b
    Examples:
      shiftlog open
      shiftlog open last
      shiftlog open --print
    """
    with open_client() as client:
        params: dict[str, object] = {"session_id": resolve_session(client, session)} if session else {}
        url = str(client.call("page.open", params)["url"])
    if as_json:
        print_json({"url": url, "expires_in_s": 60})
        return
    printer = Printer()
    if not only_print and can_browse() and browse(url):
        printer.line("The page is open in your browser.", (" shiftlog open --print gives a link instead.", "dim"))
        return
    printer.line((url, "green"))
    printer.line(("The link works once, within a minute.", "dim"))


def can_browse() -> bool:
    """Return True if a browser can be shown here."""
    return sys.platform == "darwin" or any(os.environ.get(name) for name in SCREENS)


def browse(url: str) -> bool:
    """Start the user's browser; return True if there was one."""
    import webbrowser

    try:
        return webbrowser.open(url)
    except webbrowser.Error:
        return False
