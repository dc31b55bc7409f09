"""Judgements and scores as tables, figures and pages. Others use table, formats, owned_folder, published,
release_facts and write.
"""
