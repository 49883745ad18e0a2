"""Profiles and refusals of close_session and resume_session."""
