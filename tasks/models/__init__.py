"""What loads weights, each model once a process; nothing here downloads without being told to."""
