"""The work itself, on one source or pair: plain functions, and the recipe."""
