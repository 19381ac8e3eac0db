"""Wire formats. `registry.DIALECTS` is the one list of them."""
