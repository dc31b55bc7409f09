"""The flows of what plugs in: a folder for each."""
