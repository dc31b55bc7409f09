"""Order of execution: Prefect flows and their thin task wrappers.

The shell shared by all flows (parameters, options, executor, result, artifacts) is here; `build`, `score`,
`annotate` and `prompts` contain what is specific to each.
"""
