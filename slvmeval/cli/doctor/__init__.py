"""The command ``doctor``. The commands for SLURM use ``cluster`` and ``finding`` as well."""
