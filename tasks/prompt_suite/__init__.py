"""A prompt suite from a user's own videos: drafts, a person's correction, and what the suite needs. Others
use
maker and project.
"""
