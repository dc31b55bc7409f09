"""Human annotation: people see the pairs of a release, and their answers become votes; or they rate videos.

Used elsewhere: :mod:`tasks.annotation.desk` (the database behind the pages), :mod:`tasks.annotation.exchange`
(files for platforms that show tasks themselves), :mod:`~tasks.annotation.campaign` (settings),
:mod:`~tasks.annotation.publish` (publish a release as a campaign), :mod:`~tasks.annotation.publish_ratings`
(publish generated videos to raters), :mod:`~tasks.annotation.ratings_file` (their ratings as a file),
:mod:`~tasks.annotation.media` (the videos that workers see), :mod:`~tasks.annotation.translation`,
:mod:`~tasks.annotation.pair_task` and :mod:`~tasks.annotation.rating_task` (one pair, and one video in one
dimension, as a task), :mod:`~tasks.annotation.sync` (keep the votes of the store in sync with the desk),
:mod:`~tasks.annotation.progress` and :mod:`~tasks.annotation.pace` (a campaign's progress), and
:mod:`~tasks.annotation.installation` (where everything is stored, and the installation's key).
"""
