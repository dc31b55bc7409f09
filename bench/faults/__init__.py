"""Random faults on a real Slurm of this machine, and what the builds they hit lose or leave behind."""
