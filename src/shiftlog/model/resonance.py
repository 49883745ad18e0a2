"""Resonance: from caller and backend to tier, and from tier to model, effort, agent kind and provider.

Here are the shape of the data and the rule that reads it. The data itself, model names above all, lives in
`defaults/resonance.toml` and in the operator's `[runs]`; reading those files is the work of `config`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from shiftlog.model.errors import InvalidParameter

TIERS = ("maximo", "alto", "medio", "bajo", "muy_bajo")
DEFAULT_TIER = "alto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A program that runs agents: the agent kind it stands for and who provides its models.

    `cached_in_input` says that the input tokens it reports include those read from a cache.
    """

    agent: str
    provider: str | None = None
    cached_in_input: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The meaning of a tier on one backend; None leaves the choice to the backend."""

    model: str | None = None
    effort: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resonance:
    """The registered backends and callers, and the levels per backend and tier.

    A caller maps to its own tier, or to None where the default tier applies.
    """

    default_tier: str = DEFAULT_TIER
    backends: Mapping[str, Backend]
    callers: Mapping[str, str | None]
    levels: Mapping[str, Mapping[str, Level]]

    def backend_of(self, agent: str) -> str | None:
        """Return the first backend registered for an agent kind."""
        return next((name for name, backend in self.backends.items() if backend.agent == agent), None)

    def level(self, backend: str, tier: str) -> Level:
        """Return the meaning of a tier on a backend."""
        return self.levels.get(backend, {}).get(tier, Level())


def resolve_tier(resonance: Resonance, *, caller: str, tier: str) -> tuple[str, tuple[str, ...]]:
    """Return the tier of a run (the explicit one, else the caller's own, else the default) and warnings.

    Raises InvalidParameter for an unknown tier; an unregistered caller only draws a warning.
    """
    if tier and tier not in TIERS:
        says = "one of " + ", ".join(TIERS)
        raise InvalidParameter.invalid("resonance_tier", says, tier, allowed=list(TIERS))
    if tier:
        return tier, ()
    tier = resonance.callers.get(caller) or resonance.default_tier
    if not caller or caller in resonance.callers:
        return tier, ()
    return tier, (f"caller '{caller}' is not registered; using the default tier '{tier}'",)


def known_backend(resonance: Resonance, name: str) -> Backend:
    """Return a backend by its name; raise InvalidParameter for one that is not registered, listing those that are."""
    known = resonance.backends.get(name)
    if known is None:
        names = list(resonance.backends)
        raise InvalidParameter.invalid("backend", "one of " + ", ".join(names), name, allowed=names)
    return known
