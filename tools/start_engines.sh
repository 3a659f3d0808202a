#!/usr/bin/env bash
# Start a Docker engine by hand, for tests on a machine without a service manager, and say how it is reached.
#
#     tools/start_engines.sh DIRECTORY
#
# Everything of it is in DIRECTORY: data, socket, log, and `pid` to stop it by. No bridge and no packet filter: the
# containers have no network. Podman needs no service; its settings are put there, too, since crun doesn't know every
# machine's control groups, and runc does. Prints lines for `eval`. Exit code 1: the engine doesn't come up.
set -euo pipefail
directory=$1
mkdir -p "$directory"
printf '[engine]\nruntime = "runc"\n' >"$directory/containers.conf"

running() { docker --host "unix://$directory/docker.sock" info >/dev/null 2>&1; }

start() {
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        dockerd --iptables=false --ip6tables=false --bridge=none --data-root "$directory/data" \
        --exec-root "$directory/exec" --pidfile "$directory/pid" --host "unix://$directory/docker.sock" "$@" \
        >>"$directory/log" 2>&1 </dev/null &
    local pid=$!
    for _ in $(seq 150); do
        if running; then return 0; fi
        if ! kill -0 "$pid" 2>/dev/null; then return 1; fi
        sleep 0.2
    done
    kill "$pid"
    wait "$pid" || true
    return 1
}

# vfs copies whole images, but needs nothing of the file system.
if ! start && ! start --storage-driver=vfs; then
    tail -n 20 "$directory/log" >&2
    exit 1
fi
echo "export DOCKER_HOST=unix://$directory/docker.sock CONTAINERS_CONF=$directory/containers.conf"
