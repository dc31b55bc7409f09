"""Video-Bench: nine dimensions scored by multimodal models, and the suite as a judge of pairs."""
