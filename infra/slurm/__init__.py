"""Worker pools made of SLURM jobs.

`cluster` is what flows use: a Dask scheduler whose pools (`pool_jobs`, `scaling`) are jobs
(`job_script`, `commands`). `worker` and `on_node` are programs that run on a node; `worker_setup` and
`worker_checks` run in a worker. `profile_check` and `probe` are used by `doctor`; `server_job` by
`serve-llm`, and `gpu_job` (a job with one command) by it and by `doctor --gpu`.
"""
