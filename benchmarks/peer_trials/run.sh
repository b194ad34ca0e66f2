#!/usr/bin/env bash
# Our column beside the peers: run.sh TRIALS [OUT.json] [arguments of trial.py, for example --only langgraph --cases 1,3]
# TRIALS is the folder of the peer trials (trial.py, box.py, peers/, requirements.txt). Needs Linux and Python 3.11 or newer.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
trials=$(cd "$1" && pwd)
out=$(realpath -m "${2:-peer_trials.json}")
shift $(($# > 2 ? 2 : $#))
base=${TRIALS_BASE:-$(mktemp -d)}
[ -n "${TRIALS_BASE:-}" ] || trap 'rm -rf "$base"' EXIT
mkdir -p "$base"
if [ ! -x "$base/venv/bin/python" ]; then
  python3 -m venv "$base/venv"
  "$base/venv/bin/pip" install -qq --disable-pip-version-check -r "$trials/requirements.txt"
fi
"$base/venv/bin/pip" install -qq --disable-pip-version-check "$here/../.."
rm -rf "$base/trials"
cp -r "$trials" "$base/trials"
chmod -R u+w "$base/trials"
cp "$here/ours.py" "$base/trials/ours.py" # in place of the template
export PYTHONDONTWRITEBYTECODE=1 LANGSMITH_TRACING=false
"$base/venv/bin/python" "$base/trials/trial.py" --json "$out" --add ours "$@"
