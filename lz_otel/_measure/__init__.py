"""From ended calls to numbers: rules, caps on labels, the store, spans."""
