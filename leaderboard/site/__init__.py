"""The site: a board as static pages that need no network, read from the file system as well as from a server."""
