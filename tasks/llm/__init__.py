"""Requests to model servers.

Other packages use servers, chat, answers, conversation, questions, requests, usage, limits and vision_models.
"""
