"""What plugs into the core as another package would: two suites, other people's sets of pairs, and the
making of prompts. They are found through the entry points in `pyproject.toml`; nothing outside imports from
here.
"""
