"""Text, figures and pictures made fit for HTML."""
