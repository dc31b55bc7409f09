"""Video-Bench: nine dimensions scored by multimodal models (chain of query, few-shot scoring)."""
