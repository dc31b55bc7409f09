"""The commands for a store and its releases: list, show, check, clean up, export."""
