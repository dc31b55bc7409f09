"""The command line.

``main`` holds the application, each folder a group of commands, and ``terminal`` the options and output
that commands share. A command module has a function ``register``, which adds its commands.
"""
