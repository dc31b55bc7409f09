"""Judgements and scores as tables, figures and pages.

Used elsewhere: table, formats, owned_folder, published, release_facts and write.
"""
