"""Commands and pages of what plugs in: a folder for each."""
