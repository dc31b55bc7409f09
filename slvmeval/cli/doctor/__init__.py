"""The command ``doctor``. The SLURM commands also use ``cluster`` and ``finding``."""
