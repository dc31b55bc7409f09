"""The desk: the database behind the pages on which people annotate.

Others open a :class:`tasks.annotation.desk.desk.Desk` and use the objects that it holds: `campaigns`,
`workers`, `queue`, `viewing`, `answers`, `ratings`, `votes`, `decisions`, `events` and `organiser`, each in
the module of its name. They also use :mod:`refusals` (why a worker's request is refused), :mod:`assignment`,
:mod:`pair_assignment` and :mod:`rating_assignment` (one worker's work on one task) and the values that these
modules return.

Every request is one transaction of :mod:`database` on the tables of :mod:`tables`; :mod:`playback` has the
rules for accepting playback reports, :mod:`keys` what the installation's key signs. An object holds the
objects that it needs, which are created before it: campaigns, extras, events, decisions, assignments, votes,
workers, queue.
"""
