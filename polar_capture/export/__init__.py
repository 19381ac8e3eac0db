"""Training formats, one a file. `registry` names them; the rest is selection, writing and the manifest."""
