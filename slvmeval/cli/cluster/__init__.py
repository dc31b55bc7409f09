"""The commands ``deploy``, ``run`` and ``serve-llm``, and the group ``slurm``."""
