"""One engine for judgements of pairs and scores of videos. Others use base, engine, judging and registry."""
