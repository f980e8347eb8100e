"""`python -m logist`."""

from logist.cli import main

if __name__ == "__main__":
    main()
