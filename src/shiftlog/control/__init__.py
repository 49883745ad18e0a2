"""What our own programs ask an app over the control socket: one file per group of questions."""
