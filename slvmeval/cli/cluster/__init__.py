"""The commands ``deploy``, ``run``, ``serve-llm`` and ``doctor --gpu``, and the group ``slurm``."""
