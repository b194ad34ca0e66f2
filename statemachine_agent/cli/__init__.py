"""The command line: `statemachine-agent`, short `sma`. It parses, calls the runtime, and shows; it decides nothing."""

import _signal  # type: ignore[import-not-found]  # what `signal` is made of: importing that one takes a while in which Ctrl-C would show a traceback

# Until the command line can say so in one line, Ctrl-C ends the process as it ends any other: without a traceback.
if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
