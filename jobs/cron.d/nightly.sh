#!/bin/bash
# One run over all clusters, for cron: silent where all is well, and else what cron mails is the reason alone.
#
#   DATA   folder with sources/NAME, a file (its last extension is no part of the name) or a folder a cluster; the tables,
#          the page and the log go there too
#
# Exit codes are the command's: 0; 1 bad input, settings or environment; 2 a table fault, before gold; 4 a threshold is
# crossed, all tables written. 75: the run before goes on.
set -u -o pipefail
DATA=${DATA:-$HOME}
ALERTS=(--alert "worst_survivor > 1.5" --alert "newly_offline > 0" --alert "offline > 0")

mkdir -p "$DATA/log" || exit 1
exec 9> "$DATA/log/lock"
if ! flock --nonblock 9; then
  echo "kafka-placement: the run before still goes on (lock $DATA/log/lock): nothing was started" >&2
  exit 75
fi

log=$DATA/log/$(date -u +%Y-%m-%d).log
shopt -s nullglob
sources=("$DATA"/sources/*)
if [ ${#sources[@]} = 0 ]; then
  echo "kafka-placement: there is no source in $DATA/sources" >&2
  exit 1
fi

kafka-placement run "${sources[@]}" --warehouse "$DATA/warehouse" --report "$DATA/report.html" \
  "${ALERTS[@]}" > "$log" 2> "$log.err" 9>&-
code=$?
case $code in
  0) ;;
  4) echo "A threshold is crossed. The page: $DATA/report.html" ;;
  2) echo "The tables have a fault: gold is as it was before this run." ;;
  *) echo "The run failed with exit code $code. The log: $log" ;;
esac
cat "$log.err" # warnings too
find "$DATA/log" -name '*.log*' -mtime +30 -delete
exit $code
