"""Adapters that turn a data set on disk into sources, each with its video, clips and captions.

Used elsewhere: `registry` (open a data set), `base` (base class and ids) and `clips` (caption validation).
`folder` and `vript` are the adapters.
"""
