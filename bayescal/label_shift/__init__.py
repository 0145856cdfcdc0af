"""Class proportions of a place without labels, and probabilities adapted to them."""
