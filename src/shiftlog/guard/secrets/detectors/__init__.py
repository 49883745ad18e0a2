"""The detectors: one module for each way in which a secret shows in a text; `lines` joins them."""
