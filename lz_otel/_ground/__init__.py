"""Ground that every stage stands on: the guard, headers, bounded memory, vocabulary."""
