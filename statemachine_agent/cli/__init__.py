"""The command line: `statemachine-agent`, short `sma`. It parses, calls the runtime, and shows; it decides nothing."""
