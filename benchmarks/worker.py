"""One case in one process: variants take turns, block by block; prints CPU seconds per call as JSON.

``python -m benchmarks.worker CASE PORT ROUNDS SHARE VARIANT…``
"""

from __future__ import annotations

import gc
import json
import random
import sys
import time

from benchmarks.cases import CASES
from benchmarks.variants import VARIANTS


def main(argv: list[str]) -> None:
    """Run one case."""
    name, port, rounds, share, *variants = argv
    case = CASES[name]
    base = f"http://127.0.0.1:{port}"
    run = case.make(base)
    calls = max(1, round(case.calls * float(share)))
    order = random.Random(1)
    seconds: dict[str, list[float]] = {v: [] for v in variants}
    run(max(2, calls // 4))  # imports, caches, connections
    for number in range(int(rounds) + 1):
        for variant in order.sample(variants, len(variants)):
            warm_up = max(1, case.calls // 5)
            with VARIANTS[variant](f"{base}/sink") as watch:
                run(warm_up)  # series, digests and caches are there, as in a running service
                watch.settle()
                gc.collect()
                began = time.process_time()
                run(calls)
                watch.settle()
                spent = (time.process_time() - began) / calls
                seen, made = watch.seen(), warm_up + calls if case.observed else 0
                if seen is not None and seen != made:
                    sys.exit(
                        f"{case.title}: {variant} saw {seen:.0f} of {made} calls, so its cost means nothing"
                    )
            if number:  # the first round warms up
                seconds[variant].append(spent)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main(sys.argv[1:])
