"""The ten evaluation aspects, one file each.

Used elsewhere: `registry` (aspects by name), `base` (base classes), `speeds` (GPU time) and `drawn_clip`.
`object_diffusion` and `color_edit` hold the paper's operations for two aspects.
"""
