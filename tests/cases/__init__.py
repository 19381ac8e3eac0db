"""The field's faults and the tests that hold them: `python -m tests.cases` runs these tests and prints a table."""
