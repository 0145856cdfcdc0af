"""`python -m bayescal`, the same as the command `bayescal`."""

from bayescal.cli import main

if __name__ == "__main__":
    main()
