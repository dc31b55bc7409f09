"""What loads weights, each model once a process; nothing here downloads without being told to.

Others use `hub` (from a name to a loaded model), `base` (what an operation knows of a model),
`residence` (memory and batches), `device`, `registry` (the known models), and `add`, `fetch` and
`mirror` for the command `models`. One file a model; `clip_server` also runs alone, in an environment of
its own.
"""
