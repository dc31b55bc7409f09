"""Models and their weights. Each model is loaded once per process; downloads are always explicit.

Public modules: `hub` (from a name to a loaded model), `base` (model interfaces), `residence` (memory and
batches), `device`, `registry` (the known models), `add`, `fetch` and `mirror` for the command `models`, and
`hub_access` (requests to a model hub). Each model has its own file; `clip_server` also runs standalone in a
separate environment.
"""
