"""The playground: a page in the browser with the library behind it, or with recordings of it."""
