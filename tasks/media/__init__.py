"""Video files and their pixels.

`source_file` and `probe` open and describe a file; `decode` samples its frames (`FrameSampler`), by
`images`, `packet_plan`, `h264_syntax`, `frame_rule` and `scaling`, which only this folder uses.
`encode` writes H.264 in MP4. `planes` converts planes and RGB; `color_names` finds the pixels that
people call by a colour word.
"""
