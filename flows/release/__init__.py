"""The build. Public modules: `options`, `run`, `result` and the flow in `flow`.

`missing` decides what a build still has to do, from the `state`; `sources` scans, `checks` looks for models
and servers, `write` creates the release from the built pairs.
"""
