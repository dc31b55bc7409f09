"""Human annotation: a release is shown to people, and their answers become votes.

Others use :mod:`tasks.annotation.desk` (the database behind the pages), :mod:`tasks.annotation.exchange`
(files for platforms that show tasks themselves), :mod:`~tasks.annotation.campaign` (settings),
:mod:`~tasks.annotation.publish` (choose a campaign and put a release into it),
:mod:`~tasks.annotation.media` (the videos that workers see), :mod:`~tasks.annotation.translation`,
:mod:`~tasks.annotation.pair_task` (one pair as a worker gets it), :mod:`~tasks.annotation.sync` (keep the
votes of the store in step with the desk), :mod:`~tasks.annotation.progress` and
:mod:`~tasks.annotation.pace` (how far a campaign is), and :mod:`~tasks.annotation.installation` (where all
of it is kept, and the installation's key).
"""
