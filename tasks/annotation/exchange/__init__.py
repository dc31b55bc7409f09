"""Files for crowdsourcing platforms: tasks go out as a table, answers come back and become votes.

Others use :mod:`~tasks.annotation.exchange.task_table` (write tasks and links),
:mod:`~tasks.annotation.exchange.mapping` (how a platform names columns and values) and
:mod:`~tasks.annotation.exchange.answers` (import answers); :mod:`~tasks.annotation.exchange.rows` serves
the latter.
"""
