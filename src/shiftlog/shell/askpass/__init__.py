"""Password prompts of programs in local shells, answered by a person outside of the shell."""
