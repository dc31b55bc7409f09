"""A CLIP that embeds pictures and texts, and a small server of one for an environment of its own.

This folder stands alone: it imports Python, NumPy, torch and transformers only, so that an environment with
other versions than ours can run it by its path (Jina CLIP v2 needs transformers 4.51.3) ::

    JINA-ENV/bin/python tasks/models/clip_server --loader jina-clip-v2 --device cuda --port 8001

The key that clients need is in the variable ``VLLM_API_KEY``, as for every server that
``python -m infra.serving`` starts. All loaders give the same parts; what comes after them is the same code.
"""
