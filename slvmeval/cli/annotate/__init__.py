"""The commands ``slvmeval annotate …``; ``annotate`` is the group."""
