"""Requests to model servers.

Other rooms use servers, chat, answers, conversation, questions, requests, usage, limits and vision_models.
"""
