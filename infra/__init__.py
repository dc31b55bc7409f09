"""Execution: site profiles, executors, clusters and servers.

`profile` and `pool`: settings of a site. `executor`: where stages run. `dask_cluster`,
`prefect_server`: one machine. `slurm`: worker pools made of SLURM jobs. `serving`: model servers that
announce themselves in the store; `vllm`: how vLLM serves the papers' models. `progress`: the file read by
`slvmeval status`. `exit_guard`: cleanup after this process has ended.
"""
