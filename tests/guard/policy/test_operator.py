"""The operator's policy: all its keys, what stops the start, and several policies at once."""

import pytest

from shiftlog.guard.policy.operator import READERS, OperatorPolicy, combine, read_policy, tightening
from shiftlog.model.errors import ConfigError

EVERYTHING: dict[str, object] = {
    "allow": ["git"],
    "deny": ["nc"],
    "ask": ["git push"],
    "deny_patterns": ["a+"],
    "dangerous": "off",
    "transports": ["local", "ssh"],
    "hosts": ["*.internal"],
    "containers": ["web"],
    "key_dir": "/keys",
    "known_hosts": "/keys/known_hosts",
    "accept_new_host_keys": True,
    "require_known_hosts": False,
    "password_auth": False,
    "ssh_agent": False,
    "askpass": False,
    "sandbox_max": "workspace-write",
    "sandbox_default": "read-only",
    "sandbox_network": False,
    "sandbox_write": ["~/.cache"],
    "require_kernel": True,
    "unjudged": "ask",
    "env_pass": ["GH_TOKEN"],
    "redaction": {"disable": ["jwt"], "add": [{"id": "mine", "pattern": "X+"}]},
    "workspaces": ["/srv/*"],
    "limits": {"shells": 4, "timeout_s_max": 600},
}


def test_every_key_is_read_and_none_is_missing_here() -> None:
    assert set(EVERYTHING) == set(READERS)
    policy = read_policy(EVERYTHING, "policy.json")
    assert policy.allow == (("git",),)
    assert (policy.deny, policy.ask, policy.dangerous) == (("nc",), ("git push",), False)
    assert (policy.sandbox_max, policy.sandbox_default, policy.require_kernel) == ("workspace-write", "read-only", True)
    assert policy.redaction_disable == ("jwt",)
    assert policy.redaction_add[0].id == "mine"
    assert policy.limits == {"shells": 4, "timeout_s_max": 600}


def test_an_execkit_policy_file_loads_unchanged() -> None:
    policy = read_policy({"allow": [], "deny": ["curl"], "deny_patterns": []}, "execkit.json")
    assert policy.allow == ()
    assert policy.deny == ("curl",)


@pytest.mark.parametrize(
    ("mapping", "named"),
    [
        ({"alow": ["git"]}, "alow"),
        ({"limits": {"shels": 1}}, "limits.shels"),
        ({"redaction": {"off": []}}, "redaction.off"),
        ({"deny": "ls"}, "deny"),
        ({"deny": [""]}, "deny"),
        ({"deny_patterns": ["("]}, "deny_patterns"),
        ({"dangerous": "maybe"}, "dangerous"),
        ({"sandbox_max": "loose"}, "sandbox_max"),
        ({"transports": ["telnet"]}, "transports"),
        ({"require_kernel": "yes"}, "require_kernel"),
        ({"unjudged": "no"}, "unjudged"),
        ({"limits": {"shells": -1}}, "limits.shells"),
        ({"limits": {"shells": True}}, "limits.shells"),
        ({"limits": {"timeout_s_max": 0}}, "limits.timeout_s_max"),
    ],
)
def test_a_faulty_policy_is_refused_by_the_name_of_the_key(mapping: dict[str, object], named: str) -> None:
    """Case 40."""
    with pytest.raises(ConfigError) as caught:
        read_policy(mapping, "policy.json")
    assert f"'{named}'" in caught.value.message
    assert caught.value.message.startswith("policy.json")


def test_of_several_policies_all_hold_and_the_tighter_wins() -> None:
    one = read_policy(
        {"deny": ["a"], "allow": ["x"], "sandbox_max": "full-access", "transports": ["local", "ssh"],
         "limits": {"shells": 8, "idle_ttl_s": 0}, "env_pass": ["A", "B"], "dangerous": "off", "password_auth": True},
        "one",
    )  # fmt: skip
    other = read_policy(
        {"deny": ["a", "b"], "allow": ["y"], "sandbox_max": "read-only", "transports": ["ssh", "docker"],
         "limits": {"shells": 9, "idle_ttl_s": 60}, "env_pass": ["B"], "dangerous": "on", "password_auth": False},
        "other",
    )  # fmt: skip
    joined = combine(one, other)
    assert joined.deny == ("a", "b")
    assert joined.allow == (("x",), ("y",))
    assert joined.sandbox_max == "read-only"
    assert joined.transports == ("ssh",)
    assert joined.limits == {"shells": 8, "idle_ttl_s": 60}
    assert joined.env_pass == ("B",)
    assert joined.dangerous
    assert not joined.password_auth
    assert combine(other, one).deny == ("a", "b")


def test_a_key_that_only_one_policy_sets_is_taken_from_it() -> None:
    joined = combine(read_policy({"hosts": ["build"]}, "one"), read_policy({"deny": ["nc"]}, "other"))
    assert joined.hosts == (("build",),)
    assert combine() == OperatorPolicy()


def _read(**keys: object) -> OperatorPolicy:
    return read_policy(keys, "p.json")


@pytest.mark.parametrize(
    ("mine", "theirs", "keys"),
    [
        ({}, {}, []),
        ({}, {"deny": ["ls"]}, ["deny"]),
        ({"deny": ["ls", "rm"]}, {"deny": ["rm"]}, []),
        ({"allow": ["git"]}, {"allow": ["git", "ls"]}, ["allow"]),
        ({"allow": ["git"]}, {"allow": ["git"]}, []),
        ({}, {"dangerous": "off", "accept_new_host_keys": True, "require_known_hosts": False}, []),
        ({"dangerous": "off"}, {"dangerous": "on"}, ["dangerous"]),
        ({}, {"require_known_hosts": True, "require_kernel": True}, ["require_kernel", "require_known_hosts"]),
        ({"unjudged": "ask"}, {"unjudged": "refuse"}, ["unjudged"]),
        ({"unjudged": "refuse"}, {"unjudged": "ask"}, []),
        ({}, {"transports": ["local"], "hosts": ["*"]}, ["transports"]),
        ({"sandbox_max": "read-only"}, {"sandbox_max": "workspace-write"}, []),
        ({}, {"sandbox_max": "workspace-write", "sandbox_default": "full-access"}, ["sandbox_max"]),
        ({}, {"sandbox_write": []}, ["sandbox_write"]),
        ({}, {"workspaces": ["*"]}, []),
        ({}, {"workspaces": ["/srv/*"]}, ["workspaces"]),
        ({}, {"key_dir": "/keys"}, ["key_dir"]),
        ({"key_dir": "/keys"}, {"key_dir": "/keys", "known_hosts": "/k"}, ["known_hosts"]),
        ({}, {"limits": {"shells": 64, "idle_ttl_s": 0}}, []),
        ({}, {"limits": {"shells": 63}}, ["limits"]),
        ({"limits": {"shells": 4}}, {"limits": {"shells": 5, "spool_days": 1}}, ["limits"]),
        ({"redaction": {"disable": ["jwt"]}}, {"redaction": {"disable": []}}, ["redaction_disable"]),
    ],
)
def test_only_the_keys_that_would_tighten_are_named(
    mine: dict[str, object], theirs: dict[str, object], keys: list[str]
) -> None:
    assert tightening(_read(**mine), _read(**theirs)) == keys


def test_a_redaction_rule_that_cannot_be_used_is_named_with_the_file_that_has_it() -> None:
    with pytest.raises(ConfigError, match=r"p.json: policy key 'redaction.add' .* matches the empty text"):
        read_policy({"redaction": {"add": [{"id": "x", "pattern": "z*"}]}}, "p.json")
