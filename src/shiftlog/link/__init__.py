"""The client side of the daemon's socket: bridge, hook and control client. Standard library only."""
