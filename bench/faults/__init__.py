"""Random faults on a real Slurm on this machine, and what the affected builds lose or leave behind."""
