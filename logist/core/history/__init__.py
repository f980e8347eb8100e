"""What follows from a history: the state it folds to, its agent runs, its statistics."""
