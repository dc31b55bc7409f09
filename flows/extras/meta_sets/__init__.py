"""The proxy study as a run of the flow `evaluate-slvmeval`."""
