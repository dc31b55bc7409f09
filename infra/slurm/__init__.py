"""Worker pools made of SLURM jobs.

`cluster` is what flows use: a Dask scheduler whose pools (`pool_jobs`, `scaling`) are jobs
(`job_script`, `commands`). `worker` is the program of a job; `worker_setup` and `worker_checks` run in it.
`doctor` uses `profile_check`, `probe` (nodes run the workers' checks and report) and `node_calls` (programs
on nodes, and their answers); `serve-llm` uses `server_job`.
"""
