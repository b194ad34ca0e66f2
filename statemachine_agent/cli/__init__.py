"""The command line: `statemachine-agent`, short `sma`. It parses, calls the runtime, and shows; it decides nothing."""

import signal

# Until the command line can say so in one line, Ctrl-C ends the process as it ends any other: without a traceback.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
