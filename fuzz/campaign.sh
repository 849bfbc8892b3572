#!/usr/bin/env bash
# One subject, all installed engines: fuzz/campaign.sh positions --time 1h --workers 4
set -euo pipefail
subject=$1
shift
exec python -m mmref fuzz --subject "$subject" --found "$(dirname "$0")/found" "$@"
