"""Where it runs: profiles, executors, the embedded Prefect server, progress."""
