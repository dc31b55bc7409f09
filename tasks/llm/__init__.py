"""Everything that asks a model server. Others use servers, chat, answers, requests, usage, limits and
vision_models.
"""
