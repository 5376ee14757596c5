"""What the demo shows: a live table while it runs, a summary and the truth at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from lz_otel import catalogue as c

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from lz_otel._measure.store import HistogramValue, Store
    from lz_otel.lab.demo.checks import Check

NONE = "–"


def quantile(value: HistogramValue, bounds: Sequence[float], q: float) -> float | None:
    """Return a quantile from buckets, as ``histogram_quantile`` gives it; ``None`` without samples."""
    rank, seen, low = q * value.count, 0, 0.0
    if not value.count:
        return None
    for count, high in zip(value.counts, bounds, strict=False):
        if seen + count >= rank and count:
            return low + (high - low) * (rank - seen) / count
        seen, low = seen + count, high
    return bounds[-1]


def _seconds(value: float | None) -> str:
    if value is None:
        return NONE
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.1%}" if whole else NONE


def _table(title: str, texts: Sequence[str], figures: Sequence[str] = (), **options: Any) -> Table:
    """Return a table with columns of text, and columns of figures to their right."""
    table = Table(title=title, title_justify="left", **options)
    for name in texts:
        table.add_column(name, no_wrap=name != "reasons")
    for name in figures:
        table.add_column(name, justify="right")
    return table


def _latency(store: Store) -> Table:
    figures = ("calls", "p50", "p95", "p99", "1st token p50", "1st token p95")
    table = _table("Latency: both modes", ("path",), figures, expand=True)
    for path, style in (("fast", "green"), ("full", "blue")):
        value = store.value(c.INFERENCE_DURATION, lz_path=path, lz_ending="ok")
        first = store.value(c.TIME_TO_FIRST_TOKEN, lz_path=path)
        table.add_row(
            f"[{style}]{path}[/]",
            f"{value.count}",
            *(_seconds(quantile(value, c.DURATION_BUCKETS, q)) for q in (0.5, 0.95, 0.99)),
            *(_seconds(quantile(first, c.DURATION_BUCKETS, q)) for q in (0.5, 0.95)),
        )
    return table


def _mechanisms(store: Store) -> Table:
    figures = ("hit rate", *c.VERDICTS, "saved")
    table = _table("Fast paths: verdicts", ("mechanism",), figures, expand=True)
    for mechanism in c.MECHANISMS:
        counts = {v: store.value(c.FAST_PATH_CALLS, mechanism=mechanism, verdict=v) for v in c.VERDICTS}
        if not any(counts.values()):
            continue
        eligible = counts["hit"] + counts["miss"] + counts["fallback"]
        overspent = store.value(c.OVERSPENT_USD, mechanism=mechanism)
        saved = store.value(c.SAVED_USD, mechanism=mechanism) - overspent
        table.add_row(
            mechanism,
            _share(counts["hit"], eligible),
            *(f"{counts[v]:.0f}" for v in c.VERDICTS),
            f"${saved:.4f}" if saved else NONE,
        )
    return table


def _reasons(store: Store) -> Table | None:
    title = "Why not: reasons of misses and fallbacks"
    table = _table(title, ("mechanism", "reasons"), show_header=False)
    for mechanism in c.MECHANISMS:
        if mechanism == "prompt_cache":
            found = {r: store.value(c.PROMPT_CACHE_MISSES, reason=r) for r in c.MISS_REASONS}
        else:
            reasons = c.FALLBACK_REASONS.get(mechanism, ())
            found = {r: store.value(c.FAST_PATH_FALLBACKS, mechanism=mechanism, reason=r) for r in reasons}
        ranked = sorted(((n, r) for r, n in found.items() if n), reverse=True)
        if ranked:
            table.add_row(mechanism, ", ".join(f"{reason} {n:.0f}" for n, reason in ranked))
    return table if table.row_count else None


def _signs(store: Store) -> Table | None:
    """Return what the families, the provider and the prices show besides, where there is something."""
    table = _table("Signs", ("sign",), ("figure",), show_header=False)
    value = store.value
    ratio = store.value(c.ZEROING_PARAMS_RATIO)
    same = value(c.INTENT_REPEATS, intent="deterministic", result="same")
    repeats = same + value(c.INTENT_REPEATS, intent="deterministic", result="different")
    masks = value(c.MASK_EVENTS)
    failed = {s: value(c.ATTEMPTS, status=s) for s in c.STATUSES if s not in ("200", "cancelled")}
    rows = (
        ("input tokens pruned", _share(value(c.PRUNED_TOKENS), value(c.ORIGINAL_TOKENS))),
        ("parameters zeroed, mean", f"{ratio.sum / ratio.count:.1%}" if ratio.count else NONE),
        ("masks that changed", _share(value(c.MASK_SWITCHES), masks) if masks else NONE),
        ("deterministic repeats with the same answer", _share(same, repeats)),
        ("ghost entities in answers", _count(value(c.GHOST_ENTITIES))),
        ("failed attempts", ", ".join(f"{s}: {n:.0f}" for s, n in failed.items() if n) or NONE),
        ("signals that cannot be read", _count(value(c.MALFORMED))),
        ("calls without a price", _count(value(c.COST_UNPRICED, gen_ai_operation_name="chat"))),
    )
    for name, figure in rows:
        if figure != NONE:
            table.add_row(name, figure)
    return table if table.row_count else None


def _count(value: float) -> str:
    return f"{value:.0f}" if value else NONE


def _quality(store: Store) -> Table | None:
    """Return the application's own scores, by route and A/B group."""
    title = "Quality, as the application scores it"
    table = _table(title, ("route", "group", "score"), ("answers", "mean"))
    points = next((series.points for series in store.snapshot() if series.metric is c.QUALITY), [])
    for (route, group, metric), value in sorted(points):
        table.add_row(route, group or NONE, metric, f"{value.count}", f"{value.sum / value.count:.4f}")
    return table if table.row_count else None


def _totals(store: Store) -> Table:
    calls = store.value(c.INFERENCE_DURATION)
    endings = {e: store.value(c.INFERENCE_DURATION, lz_ending=e).count for e in c.ENDINGS}
    fast = store.value(c.INFERENCE_DURATION, lz_path="fast", lz_ending="ok").count
    asked = store.value(c.INPUT_TOKENS)
    figures = (
        ("calls", f"{calls.count:,}"),
        ("on the fast path", _share(fast, endings["ok"])),
        ("failed", _share(endings["error"] + endings["incomplete"], calls.count)),
        ("given up by us", f"{endings['cancelled'] + endings['abandoned']}"),
        ("retries", f"{store.value(c.CALL_RETRIES):.0f}"),
        ("input tokens", f"{asked:,.0f}"),
        ("from prompt cache", _share(store.value(c.CACHE_READ_TOKENS), asked)),
        ("output tokens", f"{store.value(c.OUTPUT_TOKENS):,.0f}"),
        ("spent", f"${store.value(c.COST_USD):.4f}"),
        ("saved", f"${store.value(c.SAVED_USD) - store.value(c.OVERSPENT_USD):.4f}"),
    )
    table = _table("Calls, tokens, money", (), show_header=False)
    for row in (figures[:5], figures[5:]):
        table.add_row(*(f"[dim]{name}[/]\n[bold]{value}[/]" for name, value in row))
    return table


def dashboard(store: Store, bar: Progress | None = None) -> RenderableType:
    """Return everything that the demo shows of the metrics."""
    store.snapshot()  # brings in what is still outstanding
    parts = [bar, *(part(store) for part in (_totals, _latency, _mechanisms, _reasons, _signs, _quality))]
    return Group(*(part for part in parts if part is not None))


def progress(seconds: float | None) -> Progress:
    """Return a bar over the run, or a clock where it has no end."""
    columns: list[Any] = [TextColumn("{task.description}")]
    if seconds is not None:
        columns.append(BarColumn(bar_width=None))
    bar = Progress(*columns, TimeElapsedColumn(), expand=True)
    bar.add_task("calls are made and observed", total=seconds)
    return bar


def truth_table(checks: Sequence[Check]) -> Table:
    """Return what the metrics say beside what the simulator really did."""
    table = _table("The metrics beside the truth", ("figure",), ("metrics", "simulator's truth"))
    table.add_column("")
    for check in checks:
        mark = "[green]equal[/]" if check.equal else "[red]DIFFERS[/]"
        table.add_row(check.name, f"{check.measured:,.0f}", f"{check.truth:,.0f}", mark)
    return table
