"""Worker processes that share PROMETHEUS_MULTIPROC_DIR. Real processes throughout."""

from __future__ import annotations

from pathlib import Path

import pytest

from lz_otel._export.multiprocess import MultiprocessExporter
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
    folder.mkdir(exist_ok=True)
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
    limit = (
        f'lz_rate_limit_remaining{{{LABELS.partition(",lz_")[0]},lz_account="",resource="requests"}} 7.0\n'
    )
    assert f"{ACTIVE} 2.0\n{limit}{ACTIVE} 1.0\n{ATTEMPTS} 2.0\n" == share("killed_child", tmp_path)


def test_a_worker_that_ends_in_order_takes_its_gauges_along(tmp_path: Path) -> None:
    """A process that exits removes its own gauges, and ``mark_process_dead`` those of another."""
    assert f"{ACTIVE} 1.0\n{ATTEMPTS} 2.0\n" == share("orderly_ends", tmp_path)


def test_limits_are_the_last_that_anybody_was_told(tmp_path: Path) -> None:
    """Of several living workers' rate limits the most recent one is shown, and build information stays 1."""
    labels = f'lz_rate_limit_remaining{{{LABELS.partition(",lz_")[0]},lz_account="",resource="requests"}}'
    build = 'lz_build_info{httpx2_version="",httpx_version="",python_version="3",version="1"} 1.0'
    assert f"{labels} 9.0\n{build}\n{labels} 4.0\n" == share("limits", tmp_path)


def test_readings_of_limits_end(tmp_path: Path) -> None:
    """A reading whose reset has passed is served no more, and hides no other worker's."""
    labels = f'lz_rate_limit_remaining{{{LABELS.partition(",lz_")[0]},lz_account="",resource="requests"}}'
    assert f"{labels} 9.0\n{labels} 5.0\n" == share("limits_that_end", tmp_path)


def test_gauges_follow_within_a_second(tmp_path: Path) -> None:
    """The host's own collector sees calls in flight and rate limits, though nobody scrapes our port (1 s;
    the limit here allows for a busy machine).
    """
    program = SHARING.with_name("seen_from_outside.py")
    assert "[1.0, None]\n[0.0, 7.0]\n" == run(program, PROMETHEUS_MULTIPROC_DIR=str(tmp_path)).stdout


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


def test_what_vanishes_is_written_anew(tmp_path: Path) -> None:
    """Removed files, and a removed folder that is made again by others or by us: one warning each."""
    vanished = "LOG files in PROMETHEUS_MULTIPROC_DIR=FOLDER have vanished; they are writt\n"
    failing = "LOG PROMETHEUS_MULTIPROC_DIR=FOLDER cannot be written (No such file or dir\n"
    again = "LOG PROMETHEUS_MULTIPROC_DIR=FOLDER is written again; nothing was lost\n"
    assert (
        f"{vanished}{ATTEMPTS} 2.0\n{ACTIVE} 1.0\n"
        f"{failing}{again}{ATTEMPTS} 5.0\n{ACTIVE} 1.0\n"
        f"{failing}{again}{ATTEMPTS} 5.0\n"
    ) == share("vanished", tmp_path / "sub")


def test_a_fork_after_the_folder_has_gone(tmp_path: Path) -> None:
    """The child's calls and the parent's go on: a fault of the exporter does not feed the exporter."""
    told, status, attempts = share("vanished_then_fork", tmp_path / "sub").splitlines()
    assert ("0", "1.0") == (status, attempts)
    assert "cannot be written (No such file" in told


def test_a_folder_that_cannot_be_written() -> None:
    """One that root may open and not write: one warning names it, one more says what is lost."""
    first, second, attempts = share("cannot_be_written", Path("/sys")).splitlines()
    assert "cannot be written" in first
    assert "the last numbers" in second
    assert "1.0" == attempts


def test_a_child_that_counts_before_the_exporter_knows(tmp_path: Path) -> None:
    """What a forked child counts first of all is written to a file of its own."""
    assert f"{ATTEMPTS} 2.0\n{ACTIVE} 1.0\n" == share("counted_before_told", tmp_path)


def test_a_full_disk(tmp_path: Path) -> None:
    """What fits goes on being written, the rest is kept, and written when there is room again."""
    failing, attempts, again, total = share("full", tmp_path).splitlines()
    assert "cannot be written (No space left" in failing
    assert f"{ATTEMPTS} 6.0" == attempts
    assert "is written again; nothing was lost" in again
    assert "11.0" == total


def test_a_file_that_was_emptied(tmp_path: Path) -> None:
    """It is written again, with nothing missing; a map of it would end the process."""
    told, attempts = share("cut_short", tmp_path).splitlines()
    assert "have vanished" in told
    assert f"{ATTEMPTS} 4.0" == attempts


def test_files_do_not_pile_up(tmp_path: Path) -> None:
    """A worker takes over the sums of one that is gone: 31 processes, three at a time, leave three."""
    attempts, files, few = share("generations", tmp_path).splitlines()
    names = [f"{kind}_lz{n}.db" for kind in ("counter", "histogram") for n in range(3)]
    assert (f"{ATTEMPTS} 31.0", str(names), "True") == (attempts, files, few)


@pytest.mark.parametrize("when", ["early", "late"])
def test_the_hosts_gauges_of_the_same_mode(tmp_path: Path, when: str) -> None:
    """Gauges of the host and ours, whose file the host may open after us, do not spoil each other."""
    first, second, third = share(f"hosts_gauge_{when}", tmp_path).splitlines()
    assert (f"{ACTIVE} 2.0", "shop_open 3.0") == (first, third)
    assert second.endswith(" 1.0")


def test_a_second_instrumentation_goes_on(tmp_path: Path) -> None:
    """Totals of one process continue where it stopped and started again; its gauges do not."""
    assert f"{ATTEMPTS} 2.0\n" == share("stopped_and_started", tmp_path)


def test_a_folder_that_is_not_there(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One warning names it, and it is not made: only one that was there is made again."""
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "/nowhere/at-all")
    store = filled()
    exporter = MultiprocessExporter(store, "127.0.0.1", 0)
    exporter.start()
    exporter.look()
    exporter.after_fork_in_child()
    exporter.stop()
    assert [] == store.listeners
    record, last = caplog.records
    assert "the last numbers of this process are lost" in last.getMessage()
    assert "PROMETHEUS_MULTIPROC_DIR=/nowhere/at-all cannot be written" in record.getMessage()
