"""Evaluators: VLM judges, CLIPScore, VideoScore and baselines. The table of evaluators is
tasks.scoring.registry.
"""
