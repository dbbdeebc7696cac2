"""Steps that wait for one another, several at a time: a small table's cost is latency, not work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait


def run_steps(
    steps: Sequence[str], needs: Mapping[str, Sequence[str]], work: Callable[[str], None], at_once: int
) -> None:
    """Do `work` for every step, each after those it needs, at most `at_once` at a time.

    steps: in an order that respects `needs`; needs outside of `steps` count as met. After a failure no further step
    begins; when those under way have ended, the failure of the earliest step is raised.
    """
    waiting = list(steps)
    left = set(steps)
    running: dict[Future[None], str] = {}
    failures: dict[str, BaseException] = {}
    with ThreadPoolExecutor(at_once, thread_name_prefix="stage") as pool:
        while waiting or running:
            for step in list(waiting):
                if failures or len(running) >= at_once:
                    break
                if not left.intersection(needs.get(step, ())):
                    waiting.remove(step)
                    running[pool.submit(work, step)] = step
            if not running:
                break
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                step = running.pop(future)
                error = future.exception()
                if error is None:
                    left.remove(step)
                else:
                    failures[step] = error
    if failures:
        raise failures[min(failures, key=steps.index)]
    if waiting:
        raise ValueError(f"steps that wait for each other: {', '.join(waiting)}")
