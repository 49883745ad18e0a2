"""Shells of swe-rex in its local deployment, which needs no container."""

from loop import serve
from swerex.deployment.local import LocalDeployment
from swerex.runtime.abstract import BashAction, CreateBashSessionRequest

TIMEOUT_S = 120


class SweRexShells:
    """Sessions of one runtime."""

    def __init__(self) -> None:
        self._deployment = LocalDeployment()
        self._started = False

    async def open(self, number: int) -> None:
        if not self._started:
            self._started = True
            await self._deployment.start()
        request = CreateBashSessionRequest(session=str(number), startup_timeout=30)
        await self._deployment.runtime.create_session(request)

    async def run(self, number: int, command: str) -> str:
        action = BashAction(session=str(number), command=command, timeout=TIMEOUT_S)
        return (await self._deployment.runtime.run_in_session(action)).output

    async def close(self) -> None:
        await self._deployment.stop()


serve(SweRexShells())
