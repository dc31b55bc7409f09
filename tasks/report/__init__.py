"""Judgements and scores as tables, figures and pages. Others use table, formats, owned_folder, published,
proxy_page, release_facts and write.
"""
