"""Files for crowdsourcing platforms: tasks are exported as a table, and answers are imported as votes.

Used elsewhere: :mod:`~tasks.annotation.exchange.task_table` (write tasks and links),
:mod:`~tasks.annotation.exchange.mapping` (a platform's names of columns and values) and
:mod:`~tasks.annotation.exchange.answers` (import answers), which uses
:mod:`~tasks.annotation.exchange.rows`.
"""
