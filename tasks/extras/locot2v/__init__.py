"""LoCoT2V-Bench: 26 dimensions in five groups for long videos of complex prompts, and the suite as a judge of
pairs.
"""
