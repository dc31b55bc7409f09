"""From sources to verified pairs.

Others use `stages` (the stages of one source), `view` (a pair as two lazy frame sequences),
`file_pairs` (pairs made of a user's own video files), `release_plan`, `facts`, `intervals` and `verify`.
`ingest`, `draw`, `degrade` and `degrade_clip` are the steps.
"""
