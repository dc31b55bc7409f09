"""Annotation of a release by people. Public modules: `options` and `run`."""
