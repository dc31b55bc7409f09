"""Models and their weights. Each model is loaded once per process; downloads are always explicit.

Public modules: `hub` (from a name to a loaded model), `base` (model interfaces), `residence` (memory and
batches), `device`, `registry` (the known models), and `add`, `fetch` and `mirror` for the command
`models`. Each model has its own file; `clip_server` also runs standalone in a separate environment.
"""
