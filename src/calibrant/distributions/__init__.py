"""What a model predicts: a law for each row."""
