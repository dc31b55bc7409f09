"""Where it runs.

`profile` and `pool`: settings of a site. `executor`: where stages run. `dask_cluster`,
`prefect_server`: one machine. `slurm`: worker pools made of SLURM jobs. `serving`: model servers that
announce themselves in the store. `progress`: what `slvmeval status` reads. `exit_guard`: what is done
when this process is gone.
"""
