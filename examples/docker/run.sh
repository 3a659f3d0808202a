#!/usr/bin/env bash
# The whole of it with Docker: the image, the acceptance checks, a run, what it did, and its certificate.
#
# Needs a Docker service that this user may talk to. Nothing is pulled. Runs are kept in .addendum, beside this file.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

addendum sandbox build --with docker
addendum sandbox verify --backend docker
addendum check board.py
addendum run board.py --args '{"subject": "a lighthouse"}'
addendum show last
addendum certificate last --verify
