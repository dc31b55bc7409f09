"""Statistics of judgements; imports no other package of `tasks`.

`trials` joins judgements with their pairs; all other modules start from it. `cells` (accuracies),
`intervals`, `comparisons` (sign-flip tests), `correlations`, `durations`, `severity`, `psychometric`
(thresholds of damage), `power`, `localisation`, `tie_margin`, `krippendorff`.
"""
