"""`python -m statemachine_agent`: the command line, where the script `sma` is not on the path."""

import sys

if __name__ == "__main__":
    try:
        from statemachine_agent.cli.main import main
    except KeyboardInterrupt:  # stopped before there was anything to stop
        sys.exit(130)
    main()
