"""The report on a release: what its judges are worth, as a page, tables and figures."""
