"""The commands, one a file: options in, a call into the library, text or JSON out."""
