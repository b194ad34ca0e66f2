"""`python -m statemachine_agent`: the command line, where the script `sma` is not on the path."""

from statemachine_agent.cli.main import main

if __name__ == "__main__":
    main()
