"""The commands of a team's server: running a replica, and its API keys."""
