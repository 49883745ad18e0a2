-- The sweep looks for running runs every half minute: few among many, so they have an index of their own.

CREATE INDEX sessions_running ON sessions (active_ms, key) WHERE run_status = 'running';
