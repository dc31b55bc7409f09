"""The web pages on which people look at pairs: one FastAPI application over the desk of tasks.annotation."""
