"""The commands ``build`` with its dry run and ``demo``, and the group ``sources``."""
