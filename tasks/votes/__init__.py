"""The analysis of votes: which pairs pass the filter, how much workers agree, how carefully each one looks.

Votes are read from the store, wherever they were given. Used elsewhere: :mod:`tasks.votes.filter` (the rule,
verdicts, and the retention table), :mod:`tasks.votes.release_votes` (the votes on one release),
:mod:`tasks.votes.agreement`, and :mod:`tasks.votes.quality`.
"""
