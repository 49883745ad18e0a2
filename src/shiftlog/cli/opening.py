"""`shiftlog open`: the page in the browser.

The daemon serves it on loopback and gives a link that opens it once within a minute.
"""

import os
import sys

import click

from shiftlog.cli.asking import ask, json_option, named_session, open_client
from shiftlog.cli.screen.output import Screen, print_json

SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME")


@click.command("open", short_help="Look at sessions in the browser.")
@click.argument("session", required=False)
@click.option("--print", "only_print", is_flag=True, help="Print the link instead of starting a browser.")
@json_option
def open_(session: str | None, only_print: bool, as_json: bool) -> None:
    """Open the page in the browser: every session, live and afterwards, or only SESSION.

    The page is served on this machine alone. The link works once, within a minute, and gives the browser a cookie
    for a day; run the command again for another browser.

    \b
    Examples:
      shiftlog open
      shiftlog open last
      shiftlog open --print
    """
    if session:
        with open_client() as client:
            session = named_session(client, session)
    url = page_link(session)
    if as_json:
        print_json({"url": url, "expires_in_s": 60})
        return
    screen = Screen()
    if not only_print and can_browse() and browse(url):
        screen.line("The page is open in your browser.", (" shiftlog open --print gives a link instead.", "dim"))
        return
    screen.line((url, "green"))
    screen.line(("The link works once, within a minute.", "dim"))


def page_link(session: str | None = None) -> str:
    """Have the daemon serve the page and return a link to it, or to one session on it."""
    return str(ask("page.open", {"session_id": session} if session else {})["url"])


def can_browse() -> bool:
    """Tell whether a browser could show itself here."""
    return sys.platform == "darwin" or any(os.environ.get(name) for name in SCREENS)


def browse(url: str) -> bool:
    """Start the person's browser; tell whether there was one."""
    import webbrowser

    try:
        return webbrowser.open(url)
    except webbrowser.Error:
        return False
