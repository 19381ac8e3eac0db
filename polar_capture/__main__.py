"""`python -m polar_capture`: the command line without its console script."""

from polar_capture.cli import main

if __name__ == "__main__":
    main()
