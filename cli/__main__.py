"""`python -m quorate.cli`: the `quorate` command, where it is not installed."""

from quorate.cli.main import main

if __name__ == "__main__":
    main(prog_name="quorate")
