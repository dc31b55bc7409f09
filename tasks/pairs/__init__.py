"""From sources to verified pairs.

Used elsewhere: `stages` (the stages of one source), `view` (a pair as two lazy frame sequences),
`file_pairs` (pairs made of a user's own video files), `gpu_check` (a site's models and their speeds),
`release_plan`, `facts`, `intervals` and `verify`.
`ingest`, `draw`, `degrade`, `clip_frames` and `degrade_clip` are the steps.
"""
