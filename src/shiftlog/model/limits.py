"""Timeouts, intervals and retention times that an operator or developer might tune, each named once.

Units are in the names; a timedelta has its own. Not here: limits of the operator's policy (`guard.policy.operator`),
sizes of parameters (`*/requests.py`), the bridge's times (`link.limits`), and the pacing inside one protocol.
"""

from datetime import timedelta

# No file has a longer path.
PATH_CHARS = 4_096

# Sessions and leases

# A session that was active later than this from now was written by a clock that had jumped ahead, and the present time
# counts again. Within it a session's times never go back, as clocks are corrected and zones are set.
CLOCK_SLACK = timedelta(hours=2)
# A client holds a session this long after its last renewal.
LEASE_S = 120
# How often the daemon renews the leases of connected clients; three times within a lease.
RENEW_EVERY_S = 40.0
# How often the daemon suspends sessions that idle and deletes what is kept for a limited time.
SWEEP_EVERY_S = 30.0
# The session log looks for sessions to suspend at most this often.
STALE_CHECK_EVERY = timedelta(seconds=1)
# A session closed as successor_required should be continued within this time.
SUCCESSOR_DAYS = 7
# resume_session without a token or an id looks back this far.
LOOKBACK_DAYS = 30
# A repeated idempotency key is answered as the first time for this long; close and resume have their own time.
KEYS_KEPT = timedelta(days=90)
CONTINUITY_KEYS_KEPT = timedelta(hours=24)
# A client that lost its daemon can ask for the outcome of a call for this long.
OUTCOMES_KEPT = timedelta(hours=24)
# The agent of a client is remembered for this long: longer than any recovery token lives.
CLIENTS_KEPT = timedelta(days=100)
# git may take this long to say what changed since a session was left.
DRIFT_GIT_S = 2.0
# `tail --follow` reads new entries this often.
FOLLOW_POLL_S = 0.2

# The session log

# A call takes at most this long, unless its client says otherwise.
SESSIONLOG_CALL_S = 120.0
# A queued call that fails for a passing reason is tried this often, and may be this large.
QUEUED_CALL_ATTEMPTS = 10
QUEUED_CALL_BYTES = 16 << 20

# The hook spool, and transcripts

# The spool is looked at this often, and after a failure again after this time.
HOOK_POLL_S = 0.5
HOOK_RETRY_S = 5.0
# An event that fails is tried this often before it is set aside; a spool that waits this long does not move.
HOOK_EVENT_ATTEMPTS = 3
HOOK_STUCK_S = 60.0
# A starting session waits this long for the spool to be drained before it gets its brief.
HOOK_CATCH_UP_S = 0.2
# An event that lies further in the future is set aside.
HOOK_CLOCK_SKEW = timedelta(days=1)
# A turn counts as ended this long after its stop event, if no other event came.
HOOK_STOP_QUIET = timedelta(seconds=10)
# A hook waits this long for the checkpoint that its event asks for; the next tool call that changes files, this long.
HOOK_CHECKPOINT_S = 0.15
HOOK_LATE_S = 2.0
# An older event says nothing about the workspace as it is now.
HOOK_FRESH = timedelta(seconds=10)
# The drain of the spool waits this long for the checkpoint at the end of a turn, so that the turn ends with its files.
HOOK_END_S = 1.0
# A workspace that could not be saved is left alone for this time.
HOOK_CHECKPOINT_RETRY_S = 600.0
# A person's question about checkpoints waits this long for those that are being made.
HOOK_SETTLE_S = 10.0
# A running import reports its progress this often.
IMPORT_PROGRESS_S = 0.2
# Watching transcripts starts again this long after a failure.
IMPORT_WATCH_RETRY_S = 60.0
# The scratch copy of a killed dry run is deleted after this time.
DRY_RUN_COPIES_KEPT_S = 86_400.0

# Daemon and HTTP

# A new daemon waits this long for the lock: longer than the old one may drain.
DAEMON_LOCK_WAIT_S = 15.0
# A stopping daemon finishes running requests within this time.
DAEMON_DRAIN_S = 10.0
# Longer than the daemon drains: the closed socket cuts off a late request, so that its bridge asks for the outcome
# instead of forwarding an error that does not know it.
DAEMON_FINISH_S = 15.0
# A connection must send its hello within this time.
HELLO_S = 10.0
# Maintenance that failed is tried again after this time, then after twice as long, up to the limit.
UPKEEP_RETRY_S = 1.0
UPKEEP_RETRY_LIMIT_S = 60.0
# A part of the service that ran for so long after a failure works again.
UPKEEP_SETTLED_S = 2.0
# The HTTP server finishes running requests within this time when it stops.
HTTP_FINISH_S = 5
# The head of a request must be there within this time after the connection or its first byte, and fit into this.
HTTP_HEAD_S = 10.0
HTTP_HEAD_BYTES = 64 * 1024
# A client over HTTP sends the next part of a request within this time.
HTTP_BODY_S = 10.0
# A client that came over HTTP counts as connected for this long.
HTTP_CLIENT_KEPT_S = 15 * 60.0
# A team's server remembers an API key for this long before it looks again whether the key is still valid.
API_KEY_KEPT_S = 2.0
# It stores when a key was last used at most this often.
API_KEY_USE_EVERY_S = 60.0
# It forgets the MCP session of a client that sent nothing for this long.
MCP_SESSION_KEPT = timedelta(days=7)
# It finishes running requests within this time when it stops, and keeps an idle connection open for longer than
# reverse proxies keep theirs (nginx 60 s), so that none of them writes to a connection that is just being closed.
SERVER_FINISH_S = 20
SERVER_KEEP_ALIVE_S = 75
# Its database must answer within this time for it to be ready.
READY_S = 2.0
# A status request to a daemon that has just started waits this long for HTTP to come up.
HTTP_START_WAIT_S = 10.0

# Faces

# Progress of a command or call is sent at most this often.
PROGRESS_EVERY_S = 1.0
# After its input closes, an MCP client gets the answers of running calls for this long.
MCP_FINISH_S = 5.0
# At most this many requests of one MCP connection, and of all together, run at once; this much more of one may wait.
MCP_REQUESTS = 64
MCP_REQUESTS_IN_ALL = 512
MCP_HELD_BYTES = 1 << 20
# An MCP client that reads nothing for this long is disconnected.
MCP_STALL_S = 60.0
# A link to the page opens it once within this time; the cookie it sets lives this long.
PAGE_CODE_S = 60.0
PAGE_COOKIE_S = 24 * 3600
# The page looks for news this often, and keeps an idle stream open with a line this often.
PAGE_POLL_S = 0.25
# With news from the database it looks by itself only this often, for news that got lost.
PAGE_CATCH_UP_S = 5.0
PAGE_HEARTBEAT_S = 15.0

# Shells and outputs

# A question about a command waits this long for an answer, and the call that caused it this long for the question.
APPROVAL_HOLDS = timedelta(minutes=10)
APPROVAL_WAIT_S = 50.0
# A program's password prompt waits this long; a command's usual time limit is longer.
PROMPT_WAIT_S = 90.0
# An ended shell is listed for this long. If its end is recorded, it is held in memory for that long, and of those only
# so many: each takes some 30 KB, and an agent may open one for every few commands.
ENDED_SHELLS_SHOWN = timedelta(hours=24)
ENDED_SHELLS_HELD = timedelta(minutes=1)
ENDED_SHELLS_MOST = 16
# This many finished commands of a live shell are held in memory; earlier ones are read from journal and disk.
SHELL_COMMANDS_KEPT = 100
# After a restart, shells of sessions that were active within this time get their end recorded.
SHELLS_LOOKED_BACK = timedelta(days=30)
# Closing all shells, and ending a cancelled command, take at most this long.
SHELL_CLOSE_S = 5.0
COMMAND_END_S = 5.0
# How much output is kept, unless the policy says otherwise, and how often the rest is deleted.
OUTPUT_COMMAND_BYTES = 2 << 30
OUTPUT_TOTAL_BYTES = 20 << 30
OUTPUT_KEPT_DAYS = 14
OUTPUT_SWEEP_EVERY_S = 3600.0

# Workspaces

# A checkpoint waits this long for the lock of its shadow repository.
CHECKPOINT_LOCK_WAIT_S = 120.0
# A program of a checkpoint may run this long, and one that copies or removes stored objects this long.
CHECKPOINT_STEP_S = 120.0
CHECKPOINT_KEEPING_S = 540.0
# Closing waits this long for background copies of checkpoints.
CHECKPOINT_CLOSE_S = 30.0
# Automatic checkpoints beyond their limit are removed this often.
WORKSPACES_SWEPT_EVERY = timedelta(days=1)
RETENTION_SWEPT_EVERY = timedelta(days=1)
