"""Find and mask secrets in text, JSON and streams. Door: Redactor, Rule."""
