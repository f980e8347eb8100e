"""`logist otel`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from logist.cli.options import choose_output_file, json_flag, recorded_jobs_dir_option
from logist.cli.shell_values import complete_file
from logist.cli.show import render
from logist.cli.show.output import Diagnostic, Output, make_notes
from logist.cli.show.progress import ProgressBar
from logist.config.environment import Environment
from logist.core.text.counts import format_count
from logist.errors import ProviderError, UsageError

if TYPE_CHECKING:
    from logist.core.model import JsonObject
    from logist.jobs.archive.span_export import ExportedSpans
    from logist.jobs.archive.span_sender import Receiver


@click.command("otel")
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path())
@click.option(
    "--endpoint",
    metavar="URL",
    help="Send the spans to this receiver of OTLP over HTTP, such as http://127.0.0.1:4318  [default: "
    "$OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, or $OTEL_EXPORTER_OTLP_ENDPOINT].",
)
@click.option(
    "--output",
    metavar="FILE",
    shell_complete=complete_file,
    help="Write them to FILE instead, one request of OTLP (JSON) per line; - for standard output.",
)
@click.option("--content", is_flag=True, help="Include prompts, answers, notes and the output of checks.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@recorded_jobs_dir_option
@json_flag
@click.pass_obj
def otel(
    environment: Environment,
    paths: tuple[str, ...],
    endpoint: str | None,
    output: str | None,
    content: bool,
    force: bool,
    jobs_dir: str | None,
    as_json: bool,
) -> Output:
    """Export recorded jobs as OpenTelemetry traces.

    PATH is a job directory, a history file, a folder that contains them, or a glob; by default, all jobs of the project. Without a
    receiver and without --output, the spans go to standard output.

    The ids of spans come from the histories, so nothing is there twice if you export again. With $TRACEPARENT, the jobs become part of that
    trace. $OTEL_EXPORTER_OTLP_HEADERS has the headers that a receiver wants.

    Exit code 10 if a history is damaged; the others are still exported. Exit code 6 if the receiver did not take all spans.
    """
    from logist.cli.recorded import list_recorded
    from logist.jobs.archive.span_export import ExportedSpans, export_spans, read_traceparent

    if endpoint and output:
        raise UsageError("can't use --endpoint and --output together", where="--output")
    receiver = None if output else _choose_receiver(environment, endpoint)
    if receiver is None and as_json and output in (None, "-"):
        raise UsageError(
            "with --json, standard output has the summary",
            where="--json",
            fix="use --output FILE, or --endpoint URL",
        )
    file = None if receiver is not None else choose_output_file(output, force=force)
    archives = list_recorded(environment, paths, jobs_dir)
    progress, exported = ProgressBar(len(archives)), ExportedSpans()
    requests = export_spans(
        archives,
        exported,
        context=read_traceparent(environment.traceparent()),
        with_content=content,
        each=progress.count_interaction,
        done=progress.count_history,
    )
    rejection = warning = ""
    try:
        if receiver is not None:
            rejection, warning = _send(requests, receiver)
        elif file is not None:
            from logist.store.files import replace_chunks

            replace_chunks(file.resolve(), (_encode(request).encode() for request in requests))
        else:
            for request in requests:
                progress.clear()
                render.print_text(_encode(request))
    finally:
        progress.clear()
    return _build_output(
        exported, receiver, file, rejection, warning, to_stdout=receiver is None and file is None
    )


def _choose_receiver(environment: Environment, endpoint: str | None) -> Receiver | None:
    from logist.jobs.archive.span_sender import read_receiver

    headers = environment.traces_headers()
    if endpoint:
        return read_receiver(endpoint, headers)
    known = environment.find_traces_endpoint()
    return None if known is None else read_receiver(known[0], headers, is_complete=known[1])


def _send(requests: Iterator[JsonObject], receiver: Receiver) -> tuple[str, str]:
    """Send all requests; return as text which spans the receiver did not take, and what else it said."""
    from logist.jobs.archive.span_sender import SpanSender

    with SpanSender(receiver) as sender:
        for request in requests:
            sender.send(request)
        return sender.describe_rejection(), sender.describe_warning()


def _encode(request: JsonObject) -> str:
    return json.dumps(request, separators=(",", ":")) + "\n"


def _build_output(
    exported: ExportedSpans,
    receiver: Receiver | None,
    file: Path | None,
    rejection: str,
    warning: str,
    *,
    to_stdout: bool,
) -> Output:
    from urllib.parse import urlsplit

    host = None if receiver is None else urlsplit(receiver.url).netloc.rpartition("@")[2]
    counted = f"{format_count(exported.spans, 'span')} of {format_count(exported.histories, 'job')}"
    data = {
        "receiver": host,
        "path": None if file is None else str(file),
        "histories": exported.histories,
        "left_out": len(exported.left_out),
        "spans": exported.spans,
    }
    diagnostics = [
        Diagnostic.from_error(error)._replace(message=f"not complete: {error.message}", target=name)
        for name, error in exported.left_out
    ]
    if rejection:
        diagnostics.append(Diagnostic("error", "rejected", rejection, host))
    if warning:
        diagnostics.append(Diagnostic("warning", "receiver", f"the receiver warns: {warning}", host))
    code = exported.exit_code or (ProviderError.exit_code if rejection else 0)
    if to_stdout:
        return Output(data, diagnostics=(*diagnostics, *make_notes([counted])), exit_code=code)
    where = f"sent to {host}" if host else f"file: {file}"
    return Output(data, (counted, where), tuple(diagnostics), code)
