"""What the tests of the leaderboard share."""

from __future__ import annotations

import pytest

from mtbench.cli import app as cli


@pytest.fixture
def command(capsys):
    """Run the command line; returns exit code, stdout and stderr."""

    def call(*arguments):
        with pytest.raises(SystemExit) as stopped:
            cli.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return stopped.value.code, captured.out, captured.err

    return call
