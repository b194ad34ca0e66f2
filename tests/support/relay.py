"""Stands in for `python` where not a test starts it: has a fork server run the words, on its own streams, and ends as that ends.

Usage: `python -S -E relay.py SOCKET WORD …`. A new interpreter that imports next to nothing is soon there.
"""

from __future__ import annotations

import os
import signal
import sys

import fork_order  # beside this file, which is run as a script


def main(place: str, *words: str) -> None:
    """Wait for the end of the process, and pass signals on to it."""
    told = fork_order.order(words, os.getcwd(), os.environ)  # noqa: PTH109  `pathlib` takes its time
    assert told is not None, words
    news, process = fork_order.asked(place, {**told, "ends_with_asker": True}, [0, 1, 2])
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: os.kill(process, number))
    os.close(0)
    os.close(1)
    status = int.from_bytes(news.recv(8), "big")
    if os.WIFSIGNALED(status):
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main(*sys.argv[1:])
