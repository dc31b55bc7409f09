"""The commands ``build``, ``retry``, ``demo`` and ``plan``, and the group ``sources``."""
