"""Statistics of judgements: accuracies with their intervals, tests between evaluators, correlations."""
