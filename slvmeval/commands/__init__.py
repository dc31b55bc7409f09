"""The commands, one file a group; each imports what it needs when it is called."""
