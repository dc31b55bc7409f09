"""The providers of language models: one module for each protocol, behind one small interface.

A :class:`~tasks.llm.providers.base.Provider` translates a request and its answer, and sorts errors; retries,
limits and storage are above it. The libraries of Anthropic and Google are the extra ``providers``.
"""
