"""The ssh hosts on which shells may open: finds the host that the arguments name, and checks that it is permitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from anyio.abc import TaskGroup

from shiftlog.model.shell_errors import SshAuthFailed
from shiftlog.params.wording import conflict, must_be
from shiftlog.shell.remote.settings import SshSettings
from shiftlog.shell.remote.shell import RemoteTarget, label_part
from shiftlog.shell.remote.ssh.hosts import DEFAULT_PORT, connect_failed, resolve
from shiftlog.shell.remote.ssh.known_hosts import FINGERPRINT

if TYPE_CHECKING:
    from shiftlog.shell.sandbox.launch import Launch


class SshTargets:
    """The hosts that the operator permits."""

    def __init__(self, settings: SshSettings) -> None:
        self._settings = settings

    async def check(self, values: Mapping[str, Any]) -> None:
        """Reject what is not permitted, before any name is looked up or host contacted."""
        hop = resolve(values, self._settings)[-1]
        pin = values.get("fingerprint")
        if pin is not None and not FINGERPRINT.fullmatch(pin):
            raise must_be("fingerprint", 'a fingerprint like "SHA256:…"', "format")
        if values.get("password") is not None and values.get("key_path") is not None:
            raise conflict("key_path", "password")
        if find_spec("asyncssh") is None:
            reason = "asyncssh is not installed; the operator can install shiftlog[ssh]"
            raise connect_failed(hop.given, hop.port, reason)
        if values.get("password") is not None and not self._settings.password_auth:
            raise SshAuthFailed(
                f"authentication as {hop.user} failed",
                details={"methods": []},
                hint="The operator does not permit passwords; use a key",
            )
        if values.get("key_path") is not None:
            from shiftlog.shell.remote.ssh.keys import named_key

            named_key(values["key_path"], self._settings.key_dir)

    def find(self, values: Mapping[str, Any], launcher: Launch | None = None) -> RemoteTarget:
        from shiftlog.shell.remote.ssh.connect import Login, connect
        from shiftlog.shell.remote.ssh.wire import Connections, SshHost

        settings = self._settings
        if settings.trusting_dialect and values.get("dialect"):
            settings = replace(settings, require_known_hosts=False)
        hops = resolve(values, settings)
        login = Login(
            password=values.get("password"), key_path=values.get("key_path"), fingerprint=values.get("fingerprint")
        )

        async def again() -> Connections:
            return await connect(hops, login, settings)

        async def host(_tasks: TaskGroup) -> SshHost:
            return SshHost(await again(), again)

        hop = hops[-1]
        port = f":{hop.port}" if hop.port != DEFAULT_PORT else ""
        label = f"ssh_{label_part(hop.user)}@{label_part(hop.given)}{port}"
        return RemoteTarget(host, label=label, shown=hop.shown)
