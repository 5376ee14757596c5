#!/usr/bin/env python3
"""Where notifications of this stack end: takes Alertmanager's webhooks and shows them.

Standard library only. ``GET /`` shows the last notifications as a page, ``GET /notifications`` as JSON,
newest first; each one is also a line on standard output. Nothing is stored. What comes to ``/watchdog`` is
only counted.

    ./sink.py [--host 127.0.0.1] [--port 8080]
"""

from __future__ import annotations

import argparse
import html
import json
import sys
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEPT = 100
MOST_BYTES = 1 << 20
# Only loopback and the stack's own network reach this page; the links in it are those of the alerts.
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="10">
<meta name="viewport" content="width=device-width"><title>Notifications</title>
<style>body{{font:16px/1.5 sans-serif;max-width:50em;margin:1em auto;padding:0 1em}}
article{{border-left:6px solid #999;padding:.2em 1em;margin:1em 0}}
.critical{{border-color:#c4162a}}.warning{{border-color:#ff780a}}.resolved{{border-color:#37872d}}</style>
<h1>Notifications</h1>{body}</html>"""


class Sink(ThreadingHTTPServer):
    """The server with what it has received, newest first."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(address, Handler)
        self.received: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self.checked_in = 0  # how often the watchdog was heard of


class Handler(BaseHTTPRequestHandler):
    """Takes webhooks, shows them."""

    server: Sink

    def do_POST(self) -> None:
        """A webhook of Alertmanager (version 4)."""
        try:
            body = json.loads(self.rfile.read(min(int(self.headers.get("content-length") or 0), MOST_BYTES)))
            alerts = [dict(alert) for alert in body["alerts"]]
        except (ValueError, KeyError, TypeError) as error:
            self._answer(400, "text/plain", f"not a webhook of Alertmanager: {error}\n")
            return
        if self.path == "/watchdog":
            self.server.checked_in += 1
            self._answer(200, "text/plain", "still there\n")
            return
        self.server.received.appendleft(body)
        for alert in alerts:
            labels, notes = alert.get("labels", {}), alert.get("annotations", {})
            say(
                f"{alert.get('status')} {labels.get('severity')} {labels.get('alertname')} "
                f"job={labels.get('job')}: {notes.get('summary')} {notes.get('description')}"
            )
        self._answer(200, "text/plain", "taken\n")

    def do_GET(self) -> None:
        """The page, the list as JSON, or the health check."""
        if self.path == "/-/healthy":
            self._answer(200, "text/plain", "healthy\n")
        elif self.path == "/notifications":
            self._answer(200, "application/json", json.dumps(list(self.server.received)))
        elif self.path == "/":
            body = "".join(_article(one) for one in self.server.received) or "<p>Nothing yet.</p>"
            body += f"<p><small>Watchdog heard {self.server.checked_in} times.</small></p>"
            self._answer(200, "text/html; charset=utf-8", PAGE.format(body=body))
        else:
            self._answer(404, "text/plain", "there is /, /notifications and /-/healthy\n")

    def log_message(self, *_: Any) -> None:
        """Requests are not logged: the notifications are."""

    def _answer(self, status: int, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def say(line: str) -> None:
    """A line on standard output, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _article(one: dict[str, Any]) -> str:
    labels = one.get("commonLabels", {})
    status = str(one.get("status", ""))
    looks = "resolved" if status == "resolved" else str(labels.get("severity", ""))
    parts = []
    for alert in one.get("alerts", []):
        notes = alert.get("annotations", {})
        links = " ".join(
            f'<a href="{html.escape(str(notes[key]), quote=True)}" rel="noreferrer">{word}</a>'
            for key, word in (("dashboard_url", "dashboard"), ("runbook_url", "runbook"))
            if str(notes.get(key, "")).startswith(("http://", "https://"))
        )
        text = f"{notes.get('summary', '')} {notes.get('description', '')}"
        parts.append(
            f"<p>{html.escape(text)}<br>{links} "
            f"<small>{html.escape(str(alert.get('startsAt', '')))}</small></p>"
        )
    name = f"{status}: {labels.get('alertname', 'several')} ({labels.get('job', '')})"
    head = f'<article class="{html.escape(looks, quote=True)}"><h2>{html.escape(name)}</h2>'
    return f"{head}{''.join(parts)}</article>"


def main() -> int:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(description="Takes Alertmanager's webhooks and shows them.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080, help="0: any free one")
    args = parser.parse_args()
    with Sink((args.host, args.port)) as sink:
        say(f"listening on {args.host}:{sink.server_address[1]}")
        try:
            sink.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
