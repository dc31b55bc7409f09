"""LoCoT2V-Bench: long videos of complex prompts, in 26 dimensions of five groups, and the suite as a judge of
pairs.
"""
