"""What people's votes on pairs say: which pairs stay, how far workers agree, how well each one looks.

Nothing here knows where votes were given; they are read from the store. Others use
:mod:`tasks.votes.filter` (the rule, verdicts, and the retention table), :mod:`tasks.votes.release_votes`
(the votes on one release), :mod:`tasks.votes.agreement`, and :mod:`tasks.votes.quality`.
"""
