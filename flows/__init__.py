"""In which order it runs: the build, and the Prefect flow around it."""
