"""Models and their weights; each model is loaded once per process, and downloads are always explicit.

Others use `hub` (from a name to a loaded model), `base` (interfaces of models), `residence` (memory and
batches), `device`, `registry` (the known models), and `add`, `fetch` and `mirror` for the command
`models`. Each model has its own file; `clip_server` also runs standalone in a separate environment.
"""
