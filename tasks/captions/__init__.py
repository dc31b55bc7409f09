"""What each clip's caption names, found by rules or by a language model.

Others use `stage` (the analysis of a source), `analyser` (what an analyser is, and its settings) and
`answer_schema`. `llm` and `rules` are the analysers; `rules` uses `entities`, `grammar` and `lexicon`.
"""
