"""Video files and their pixels.

`source_file` and `probe` open and describe a file; `decode` samples its frames (`FrameSampler`) with
`images`, `packet_plan`, `bitstream`, a syntax for each codec with a plan (`h264_syntax`, …), `cropping`,
`frame_rule` and `scaling`, which are internal to this folder.
`encode` writes H.264 in MP4. `planes` converts between planes and RGB; `color_names` maps colour words to
pixels.
"""
