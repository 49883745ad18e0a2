"""Live shells for agents: local, over ssh, in containers. Door: service, ports, requests, results, state."""
