"""`python -m gaifman` is the command `gaifman`."""

from gaifman.cli import main

main()
