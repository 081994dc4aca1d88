"""What is written, hashed and laid out: files that are whole or absent, tables, pictures."""
