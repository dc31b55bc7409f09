"""The commands ``deploy``, ``run``, ``serve-llm`` and ``gpu-check``, and the group ``slurm``."""
