"""One engine for judgements of pairs and scores of videos.

Other rooms use base, engine, judging and registry.
"""
