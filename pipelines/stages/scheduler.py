"""Run steps that depend on each other, several at the same time: a small table costs latency, not work."""

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from time import monotonic

_log = logging.getLogger(__name__)


def run_steps(
    steps: Sequence[str], needs: Mapping[str, Sequence[str]], run_step: Callable[[str], None], max_parallel: int
) -> None:
    """Run each step after those that it needs. After a failure no further step starts, and it is raised."""
    waiting = list(steps)
    unfinished = set(steps)
    running: dict[Future[None], str] = {}
    failures: dict[str, BaseException] = {}
    with ThreadPoolExecutor(max_parallel, thread_name_prefix="stage") as pool:
        while waiting or running:
            for step in list(waiting):
                if failures or len(running) >= max_parallel:
                    break
                if not unfinished.intersection(needs.get(step, ())):
                    waiting.remove(step)
                    running[pool.submit(_run_logged, step, run_step)] = step
            if not running:
                break
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                step = running.pop(future)
                error = future.exception()
                if error is None:
                    unfinished.remove(step)
                else:
                    failures[step] = error
    if failures:
        raise failures[min(failures, key=steps.index)]
    if waiting:
        raise ValueError(f"steps that wait for each other: {', '.join(waiting)}")


def _run_logged(step: str, run_step: Callable[[str], None]) -> None:
    began = monotonic()
    _log.info("%s: started", step)
    try:
        run_step(step)
    except BaseException:
        _log.error("%s: failed after %.1f s", step, monotonic() - began)
        raise
    _log.info("%s: finished in %.1f s", step, monotonic() - began)
