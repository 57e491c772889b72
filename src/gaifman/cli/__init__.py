"""The command `gaifman`.

Data goes to standard output, messages to standard error. Exit codes: 0 success, 1 bad input, 2 bad usage, 130 Ctrl-C.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn

import click

from gaifman import __version__
from gaifman.cli.ask import answer, explain, query
from gaifman.cli.demo import demo
from gaifman.cli.evaluate import evaluate, reproduce
from gaifman.cli.kb import convert, features, graph, info, mine, neighbourhood, parse
from gaifman.cli.predict import predict
from gaifman.cli.review import add, review
from gaifman.cli.serve import serve
from gaifman.cli.settings import add_command, completion, init, name_source
from gaifman.cli.split import split
from gaifman.cli.train import resume, train
from gaifman.errors import GaifmanError, OutputError, StoppedError, shorten

MAX_USAGE_ERROR = 400
"""Characters of a message about wrong usage."""


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="gaifman")
def cli() -> None:
    """Predict the missing facts of a knowledge base, with probabilities and explanations.

    \b
    Examples:
      gaifman demo
      gaifman info demo
      gaifman train demo -o countries.gaifman
      gaifman predict countries.gaifman demo -o missing.csv
      gaifman answer countries.gaifman demo "capital('france', y)"
      gaifman explain countries.gaifman demo "capital('france', y)" --answer paris
      gaifman evaluate countries.gaifman train.tsv test.tsv
      gaifman serve demo countries.gaifman --open
      gaifman query demo "borders('france', y)"

    `demo` is the bundled knowledge base of countries. `gaifman COMMAND --help` describes a command.
    """


COMMANDS = (
    demo,
    info,
    parse,
    convert,
    split,
    graph,
    neighbourhood,
    features,
    mine,
    query,
    train,
    resume,
    predict,
    review,
    add,
    answer,
    explain,
    evaluate,
    reproduce,
    serve,
    init,
    completion,
)
for command in COMMANDS:
    add_command(cli, command)


def main() -> None:
    """Run the command; an error that a user can fix is one message and exit code 1, without a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that lacks ∃ gets \u2203
    try:
        code = cli.main(prog_name="gaifman", standalone_mode=False)  # click would exit with 1 after Ctrl-C
        sys.stdout.flush()  # here, because Python would end with a traceback if the disk is full
        sys.exit(code if isinstance(code, int) else 0)
    except click.ClickException as error:
        vars(error)["message"] = shorten(name_source(error), MAX_USAGE_ERROR)  # it repeats what was typed
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        click.echo("stopped", err=True)
        sys.exit(128 + signal.SIGINT)
    except GaifmanError as error:
        _refuse(error)
    except MemoryError as error:
        _refuse(StoppedError(f"not enough memory: {error}", hint="ask for less at a time"))
    except BrokenPipeError:  # the reader of the output is gone
        _discard_output()
        sys.exit(1)
    except OSError as error:
        _discard_output()
        _refuse(OutputError(f"the output cannot be written: {error.strerror or error}"))


def _discard_output() -> None:
    """Discard what is left of standard output: Python would print an error when it closes it."""
    with suppress(OSError, ValueError):  # a test's output has no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refuse(error: GaifmanError) -> NoReturn:
    words = " ".join(sys.argv).replace("=", " ")
    wants_json = "--json" in sys.argv or "--format json" in f"{words} ".replace("jsonl", "")
    with suppress(OSError):  # standard error may be on the same full disk
        click.echo(json.dumps(error.as_dict()) if wants_json else f"error: {error}", err=True)
    sys.exit(1)
