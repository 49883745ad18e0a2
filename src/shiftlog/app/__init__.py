"""The composition root: one App per state directory joins the services of all packages."""
