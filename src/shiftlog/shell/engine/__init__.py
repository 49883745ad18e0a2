"""The engine of a local shell: one bash below its reaper, driven over pipes."""
