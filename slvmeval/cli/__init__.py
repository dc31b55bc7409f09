"""The command line.

``main`` contains the application, each folder a group of commands, and ``terminal`` the options and output
that commands share. A command module has a function ``register``, which adds its commands.
"""

from slvmeval.foreign_packages import foreign_packages, in_words

# before the first of them is imported
if _foreign := foreign_packages():
    raise SystemExit(f"error: {in_words(_foreign)}")
