"""People look at pairs: tasks, what they have to see, their votes, how well they look, and what stays."""
