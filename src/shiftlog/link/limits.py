"""Time limits of the bridge and of the daemon's client; apart from `model.limits`, which link must not import."""

# A question to the daemon is answered within this time, a stop within that.
CALL_S = 60.0
STOP_S = 15.0
# After a lost connection, the bridge reconnects this often, and a new daemon answers a handshake within this time.
RECOVERY_ATTEMPTS = 5
HANDSHAKE_S = 30.0
# The daemon says within this time what became of a call.
OUTCOME_S = 10.0
# After standard input closes, the bridge waits this long for open answers.
ANSWER_WAIT_S = 30.0
# The answer to a line that is not JSON-RPC has no id, and may never come.
REFUSAL_WAIT_S = 2.0
# A connection that lived this long counts as a success, and attempts are counted anew.
STEADY_S = 1.0
# A newer client that retired the daemon gets this long to start its own.
SUCCESSOR_S = 3.0
