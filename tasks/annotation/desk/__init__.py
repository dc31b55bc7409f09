"""The desk: the database behind the pages on which people annotate.

Others open a :class:`tasks.annotation.desk.desk.Desk` and use the objects that it holds: `campaigns`,
`workers`, `queue`, `viewing`, `answers`, `votes`, `decisions`, `events` and `organiser`, each in the module
of its name. Beside it they use :mod:`refusals` (why a worker's request is refused), :mod:`assignments` (one
worker's handling of one task) and the values that these modules return.

Inside, every request is one transaction of :mod:`database` on the tables of :mod:`tables`; :mod:`playback`
has the rules by which a report of what was played is believed, :mod:`keys` what the installation's key signs.
An object holds those that it needs and was made after them: campaigns, events, decisions, assignments, votes,
workers, queue.
"""
