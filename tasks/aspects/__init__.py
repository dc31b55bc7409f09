"""The ten evaluation aspects, one file each, and what every aspect has in common."""
