"""Papers reproduced and peers raced."""
