#!/bin/sh
# Print the path of a Python that can make the virtual environment, or say what is missing.
#
#   tools/find_python.sh                 the newest tried version on PATH
#   tools/find_python.sh --other 3.11    another version than 3.11, the farthest from it, also among pyenv's; exit 1, quietly, if there is none
#
# "Can" is tried, not guessed from the name: a pyenv shim may stand for a version that isn't active, and Debian's
# python3 has no ensurepip until python3-venv is installed.
set -eu

usable='
import sys
if not (3, 11) <= sys.version_info < (3, 15): sys.exit(1)
import ensurepip, venv
print(sys.executable)
'

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])'; }

if [ "${1:-}" = --other ]; then
    case $2 in
        3.11 | 3.12) order='3.13 3.12 3.11' ;;
        *) order='3.11 3.12 3.13' ;;
    esac
    for version in $order; do
        [ "$version" != "$2" ] || continue
        for candidate in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/python3; do
            if found=$("$candidate" -c "$usable" 2>/dev/null) && [ "$(version_of "$found")" = "$version" ]; then
                echo "$found"
                exit 0
            fi
        done
    done
    exit 1
fi

without_venv=
for candidate in python3.13 python3.12 python3.11 python3; do
    if found=$("$candidate" -c "$usable" 2>/dev/null); then
        echo "$found"
        exit 0
    fi
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        without_venv=$candidate
    fi
done

if [ -n "$without_venv" ]; then
    echo "addendum: $without_venv can't make virtual environments: its ensurepip or venv module is missing." >&2
    echo "On Debian and Ubuntu: apt-get install python3-venv. Or name another one: make PYTHON=/path/to/python3" >&2
else
    echo "addendum: no Python 3.11 or later on PATH (tried python3.13, python3.12, python3.11, python3)." >&2
    echo "On Debian and Ubuntu: apt-get install python3 python3-venv. Or name one: make PYTHON=/path/to/python3" >&2
fi
exit 2
