"""A prompt suite made from a user's videos: drafts, a person's corrections, events and questions.

Other rooms use maker, project, settings and videos.
"""
