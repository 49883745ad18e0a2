"""One local bash below its reaper."""
