"""How each dataset is made: from published files, from dumps, from a seed."""
