"""The command `gaifman`.

Data on standard output, messages on standard error; exit code 0, 1 (bad input), 2 (bad usage) or 130 (Ctrl-C).
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from typing import NoReturn

import click

from gaifman import __version__
from gaifman.cli.ask import answer, explain, query
from gaifman.cli.demo import demo
from gaifman.cli.evaluate import evaluate, reproduce
from gaifman.cli.kb import convert, features, graph, info, mine, neighbourhood, parse
from gaifman.cli.serve import serve
from gaifman.cli.train import resume, train
from gaifman.errors import GaifmanError, StoppedError

EXAMPLES = """
\b
Examples:
  gaifman demo
  gaifman info demo
  gaifman parse "exists z. borders(x, z) & borders(z, y)" --kb demo
  gaifman query demo "borders('france', y)"
  gaifman train demo -o countries.gaifman
  gaifman evaluate mine.gaifman train.tsv test.tsv
  gaifman answer countries.gaifman demo "capital('france', y)"
  gaifman explain countries.gaifman demo "capital('france', y)" --answer paris
  gaifman serve demo countries.gaifman --open
  gaifman convert family.tsv family.duckdb
"""


@click.group(epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="gaifman")
def cli() -> None:
    """The missing facts of a knowledge base, with probabilities and reasons."""


COMMANDS = (
    demo,
    info,
    parse,
    convert,
    graph,
    neighbourhood,
    features,
    mine,
    query,
    train,
    resume,
    answer,
    explain,
    evaluate,
    reproduce,
    serve,
)
for command in COMMANDS:
    cli.add_command(command)


def main() -> None:
    """Run the command; whatever a user can put right is one message and exit code 1, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal may lack ∃: better \u2203 than a traceback
    try:
        code = cli.main(prog_name="gaifman", standalone_mode=False)  # click itself would say 1 to Ctrl-C
        sys.exit(code if isinstance(code, int) else 0)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        click.echo("stopped", err=True)
        sys.exit(128 + signal.SIGINT)
    except GaifmanError as error:
        _refuse(error)
    except MemoryError as error:
        _refuse(StoppedError(f"there is not enough memory for this: {error}", hint="ask for less at a time"))
    except BrokenPipeError:
        # The reader of our output has gone; Python would complain once more when it closes standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _refuse(error: GaifmanError) -> NoReturn:
    wants_json = "--json" in sys.argv
    click.echo(json.dumps(error.as_dict()) if wants_json else f"error: {error}", err=True)
    sys.exit(1)
