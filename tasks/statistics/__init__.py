"""From judgements to numbers; imports no other room of `tasks`.

`trials` joins judgements with their pairs; all others start from it. `cells` (accuracies), `intervals`,
`comparisons` (McNemar), `correlations`, `durations`, `severity`, `power`, `localisation`, `tie_margin`,
`krippendorff`.
"""
