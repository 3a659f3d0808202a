#!/bin/sh
# Make the virtual environment at $1 with the Python $2 (found when empty), unless a working one is there.
# "Working" is tried: a half-made environment, or one whose Python has gone, is made anew.
set -eu
venv=$1
if [ -e "$venv/pyvenv.cfg" ] && "$venv/bin/python" -c 'import pip' 2>/dev/null; then
    exit 0
fi
python=${2:-$("$(dirname "$0")/find_python.sh")}
echo "Making $venv with $("$python" --version)"
"$python" -m venv --clear "$venv"
