"""The reproduction of the paper as one call; its commands are in ``commands``."""
