"""Adapters: how a data set on disk becomes sources, each with its video, clips and captions."""
