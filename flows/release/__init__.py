"""The build. Public modules: `options`, `run` and the flow in `flow`."""
