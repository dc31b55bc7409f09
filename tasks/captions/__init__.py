"""Caption analysis: the entities each caption names, extracted by rules or by a language model.

Used elsewhere: `stage` (the analysis of a source), `analyser` (base class and settings) and `answer_schema`.
`llm` and `rules` are the analysers; `rules` uses `entities`, `grammar` and `lexicon`. `content_category` asks
what kind of video a source is.
"""
