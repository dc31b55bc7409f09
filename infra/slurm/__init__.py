"""Worker pools made of SLURM jobs: their scripts, how many there are, and what their workers must see."""
