"""The build. Public modules: `options`, `run`, `result` and the flow in `flow`.

`missing` decides what a build still has to do, from the `state`; `sources` scans, `checks` looks for models
and servers, `write` makes the release of what is built.
"""
