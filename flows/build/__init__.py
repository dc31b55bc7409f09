"""The build. Others use `options`, `run` and the flow in `flow`."""
