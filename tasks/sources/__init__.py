"""How a data set on disk becomes sources, each with its video, clips and captions.

Others use `registry` (open a data set), `base` (what an adapter is; ids) and `clips` (accepted
captions). `folder` and `vript` are the adapters.
"""
