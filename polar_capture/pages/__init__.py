"""Self-contained HTML pages over captured sessions and groups: data gathered, packed, and put into one document."""
