"""Worker processes that share PROMETHEUS_MULTIPROC_DIR. Real processes throughout."""

from __future__ import annotations

from pathlib import Path

import pytest

from lz_otel._export.multiprocess import MultiprocessExporter, directory, mark_process_dead
from tests.export.filling import filled, from_text
from tests.processes import run

SHARING = Path(__file__).parent / "programs" / "sharing.py"
LABELS = (
    'gen_ai_operation_name="chat",gen_ai_provider_name="anthropic",gen_ai_request_model="claude-sonnet-5",'
    'lz_group="",lz_route=""'
)
ATTEMPTS = f'lz_attempts_total{{{LABELS},status="200"}}'
ACTIVE = f"lz_call_active{{{LABELS}}}"


def share(program: str, folder: Path) -> str:
    """Standard output of a program of ``programs/sharing.py``."""
    return run(SHARING, program, silent=True, PROMETHEUS_MULTIPROC_DIR=str(folder)).stdout


def test_merged_series_are_the_stores(tmp_path: Path) -> None:
    """For one process the merged files show what the store shows: names, labels, bounds, values."""
    ours, theirs = (from_text(text) for text in share("one_process", tmp_path).split("-----\n"))
    assert set(ours) == set(theirs)
    assert ours == pytest.approx(theirs, rel=1e-12)


def test_workers_are_added_up(tmp_path: Path) -> None:
    """Five calls of a parent and one of each of two forked children are seven; none is there twice."""
    assert f"{ATTEMPTS} 7.0\n{ACTIVE} 2.0\n{ATTEMPTS} 7.0\n" == share("two_children", tmp_path)


def test_zeros_are_there(tmp_path: Path) -> None:
    """Counters that begin at 0 are in the files before anything is counted."""
    assert f"{ATTEMPTS} 0.0\n" == share("zeros", tmp_path)


def test_gauges_of_dead_workers_go(tmp_path: Path) -> None:
    """What a killed worker had in flight is gone at the next scrape of our port; what it counted stays."""
    limit = f'lz_rate_limit_remaining{{{LABELS.partition(",lz_")[0]},resource="requests"}} 7.0\n'
    assert f"{ACTIVE} 2.0\n{limit}{ACTIVE} 1.0\n{ATTEMPTS} 2.0\n" == share("killed_child", tmp_path)


def test_a_worker_that_ends_in_order_takes_its_gauges_along(tmp_path: Path) -> None:
    """A process that exits removes its own gauges, and ``mark_process_dead`` those of another."""
    assert f"{ACTIVE} 1.0\n{ATTEMPTS} 2.0\n" == share("orderly_ends", tmp_path)


def test_limits_are_the_last_that_anybody_was_told(tmp_path: Path) -> None:
    """Of several living workers' rate limits the most recent one is shown, and build information stays 1."""
    labels = f'lz_rate_limit_remaining{{{LABELS.partition(",lz_")[0]},resource="requests"}}'
    build = 'lz_build_info{httpx2_version="",httpx_version="",python_version="3",version="1"} 1.0'
    assert f"{labels} 9.0\n{build}\n{labels} 4.0\n" == share("limits", tmp_path)


def test_the_port_is_handed_over(tmp_path: Path) -> None:
    """The first worker serves for all; when it ends, another takes the port by itself, without a word."""
    assert f"{ATTEMPTS} 2.0\n" * 2 == share("handed_over", tmp_path)


def test_fork_while_a_thread_writes(tmp_path: Path) -> None:
    """Forks while other threads are inside prometheus_client: no child hangs, no count is lost."""
    assert "True\n" == share("busy_forks", tmp_path)


def test_a_fork_waits_for_a_write(tmp_path: Path) -> None:
    """No fork happens while one of our threads is inside prometheus_client, whose lock it would copy."""
    assert "0\n" == share("fork_amid_a_write", tmp_path)


def test_the_hosts_own_metrics_are_merged_too(tmp_path: Path) -> None:
    """Metrics that the host makes with prometheus_client lie in the same files and are served with ours."""
    assert f"shop_orders_total 2.0\n{ATTEMPTS} 1.0\n['shop_orders_total 2.0']\n{ATTEMPTS} 1.0\n" == share(
        "the_hosts_own", tmp_path
    )


def test_a_vanished_directory_reaches_nobody(tmp_path: Path) -> None:
    """When the files cannot be made any more, the host's calls go on."""
    folder = tmp_path / "gone"
    folder.mkdir()
    lines = share("vanished_directory", folder).splitlines()
    assert (2, "2.0") == (len(lines), lines[1])
    assert "FileNotFoundError" in lines[0]


def test_without_the_variable_it_says_so(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Set after prometheus_client was imported, the variable has no effect: one warning, and nothing else."""
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "/nowhere")
    store = filled()
    exporter = MultiprocessExporter(store, "127.0.0.1", 0)
    exporter.start()
    exporter.after_fork_in_child()
    exporter.stop()
    mark_process_dead(1)
    assert (None, None, []) == (directory(), exporter.port, store.listeners)
    [record] = caplog.records
    assert "PROMETHEUS_MULTIPROC_DIR='/nowhere'" in record.getMessage()
