"""The ten evaluation aspects, one file each.

Others use `registry` (an aspect by name), `base` (what an aspect and its operations are) and `speeds`
(GPU time). `object_diffusion` and `color_edit` hold the paper's operations of two aspects.
"""
