"""What a history says: the state it folds to, its runs, its statistics."""
