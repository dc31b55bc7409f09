"""In which order it runs: Prefect flows and their thin task wrappers.

One shell for all (parameters, options, executor, result, artifacts) stands here; `build`, `score`,
`annotate` and `prompts` hold what differs.
"""
