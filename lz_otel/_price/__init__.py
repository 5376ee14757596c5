"""What a call cost: the dated price table and its rules."""
