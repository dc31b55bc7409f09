"""A CLIP that embeds pictures and texts, and a small server for it that runs in a separate environment.

This folder is self-contained: it imports only Python, NumPy, torch and transformers, so that an environment
with other versions than ours can run it by its path (Jina CLIP v2 needs transformers 4.51.3) ::

    JINA-ENV/bin/python tasks/models/clip_server --loader jina-clip-v2 --device cuda --port 8001

Clients authenticate with the key in the variable ``VLLM_API_KEY``, as for every server that
``python -m infra.serving`` starts. All loaders return the same parts; the code after them is shared.
"""
