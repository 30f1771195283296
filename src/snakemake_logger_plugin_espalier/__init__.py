"""What Snakemake says on the terminal, in brief: `--logger espalier`.

Snakemake finds logger plugins by this package's name. A job is one line, without the list of its
inputs, which here names every source file behind it. Errors keep all that helps: message, log,
command. Snakemake's own log file has everything.
"""

import sys
from collections.abc import Mapping
from logging import LogRecord
from textwrap import shorten
from typing import Any

from snakemake.logging import ColorizingTextHandler, DefaultFormatter, format_wildcards
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.settings import OutputSettingsLoggerInterface

EMPTY = ("Select jobs to execute", "Execute ")
"""How messages begin between one count of steps and the next job."""


class Brief(DefaultFormatter):
    """Snakemake's messages, those of jobs and of the beginning shortened."""

    def __init__(self, settings: OutputSettingsLoggerInterface) -> None:
        super().__init__(settings.quiet, settings.show_failed_logs)
        self.dry_run = settings.dryrun

    def format(self, record: LogRecord) -> str:
        """A message; empty, and so not written, for those that tell nothing."""
        return "" if str(record.msg).startswith(EMPTY) else super().format(record)

    def format_workflow_started(self, msg: Mapping[str, Any]) -> str:
        """What runs where."""
        return f"Snakemake {msg['snakemake_version']} on {msg['host']} in {msg['rundir']}"

    def format_job_info(self, msg: Mapping[str, Any]) -> str:
        """A job that starts: its rule, its wildcards, its log; in a dry run also why."""
        kind = "localrule" if msg["local"] else "rule"
        wildcards = format_wildcards(msg["wildcards"])
        log = f" (log: {', '.join(msg['log'])})" if msg["log"] else ""
        line = f"{kind} {msg['rule_name']}:{wildcards and f' {wildcards}'}{log}"
        return f"{line}\n    {shorten(msg['reason'], 120)}" if self.dry_run else line

    def format_job_finished(self, msg: Mapping[str, Any]) -> str:
        """Nothing: the count of steps follows, and names no job twice."""
        return ""

    def format_job_error(self, msg: Mapping[str, Any]) -> str:
        """As Snakemake has it, without the inputs."""
        text: str = super().format_job_error({**msg, "input": []})
        return text


class LogHandler(LogHandlerBase):
    """Snakemake's own handler for the terminal, with the brief messages."""

    def __post_init__(self) -> None:
        settings = self.common_settings
        self.terminal = ColorizingTextHandler(
            nocolor=settings.nocolor,
            stream=sys.stdout if settings.stdout else sys.stderr,
            formatter=Brief(settings),
        )

    def emit(self, record: LogRecord) -> None:
        """Write a record that passed Snakemake's filter."""
        self.terminal.emit(record)

    @property
    def writes_to_stream(self) -> bool:
        """It stands in for Snakemake's own."""
        return True

    @property
    def writes_to_file(self) -> bool:
        """Snakemake's log file is not its concern."""
        return False

    @property
    def has_filter(self) -> bool:
        """Snakemake's serves, so that --quiet and --verbose mean what they do."""
        return False

    @property
    def has_formatter(self) -> bool:
        """`Brief`."""
        return True

    @property
    def needs_rulegraph(self) -> bool:
        """No."""
        return False
