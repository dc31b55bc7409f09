"""What plugs into the core as another package would: two suites, other people's sets of pairs, and the
making of prompts. No other folder of `tasks` imports from here.
"""
