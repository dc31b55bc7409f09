"""Evaluators: VLM judges, CLIPScore, VideoScore and baselines. tasks.scoring.registry lists
them.
"""
