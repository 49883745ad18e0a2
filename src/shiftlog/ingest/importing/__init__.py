"""One import: order, workers, masking, report. Door: Imports."""
