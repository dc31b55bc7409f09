"""Commands and pages of optional suites, one folder each."""
