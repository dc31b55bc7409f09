"""Human annotation: people see the pairs of a release, and their answers become votes.

Others use :mod:`tasks.annotation.desk` (the database behind the pages), :mod:`tasks.annotation.exchange`
(files for platforms that show tasks themselves), :mod:`~tasks.annotation.campaign` (settings),
:mod:`~tasks.annotation.publish` (publish a release as a campaign), :mod:`~tasks.annotation.media` (the
videos that workers see), :mod:`~tasks.annotation.translation`, :mod:`~tasks.annotation.pair_task` (one
pair as a task), :mod:`~tasks.annotation.sync` (keep the votes of the store in sync with the desk),
:mod:`~tasks.annotation.progress` and :mod:`~tasks.annotation.pace` (a campaign's progress), and
:mod:`~tasks.annotation.installation` (where everything is stored, and the installation's key).
"""
