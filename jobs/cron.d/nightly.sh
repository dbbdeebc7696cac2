#!/bin/bash
# Run all stages over all clusters, for cron. Prints nothing on success; otherwise prints the reason, which cron mails.
#
#   DATA   folder with sources/NAME: one file (its name without the last extension names the cluster) or folder per
#          cluster. Tables, report and log are written to DATA too.
#   DATA/clusters.txt            running clusters, one per line: NAME=kafka://HOST:PORT,HOST:PORT
#   DATA/clients/NAME.properties how to connect to the cluster NAME; default.properties is for all others
#   DATA/conf.toml               settings, such as policies and prices; optional
#   DATA/secrets.env             NAME=VALUE lines for ${env:NAME} in these properties; readable by this user alone
#
# Exit codes are those of the command: 1 wrong input, settings or environment; 2 a table fault stopped the run before
# gold; 4 something is newly at risk, or a threshold is crossed: all tables are written. 75: the previous run is still in
# progress.
set -u -o pipefail
DATA=${DATA:-$HOME}
ALERTS=(--alert new --alert "offline_partitions > 0") # what is new, and each night while partitions are offline

mkdir -p "$DATA/log" || exit 1
exec 9> "$DATA/log/lock"
if ! flock --nonblock 9; then
  echo "kafka-placement: the previous run is still in progress (lock $DATA/log/lock): nothing was started" >&2
  exit 75
fi

log=$DATA/log/$(date -u +%Y-%m-%d).log
shopt -s nullglob
sources=("$DATA"/sources/*)
clients=()
if [ -f "$DATA/clusters.txt" ]; then
  clusters=0
  while read -r line || [ -n "$line" ]; do # the last line may have no newline
    [[ -z $line || $line == \#* ]] || { sources+=("$line"); clusters=1; }
  done < "$DATA/clusters.txt"
  for file in "$DATA"/clients/*.properties; do
    [ $clusters = 1 ] || break # the command rejects properties that nothing uses
    name=$(basename "$file" .properties)
    [ "$name" = default ] && clients+=(--command-config "$file") || clients+=(--command-config "$name=$file")
  done
fi
if [ -f "$DATA/secrets.env" ]; then
  set -a
  . "$DATA/secrets.env"
  set +a
fi
if [ ${#sources[@]} = 0 ]; then
  echo "kafka-placement: there is no source in $DATA/sources, and no cluster in $DATA/clusters.txt" >&2
  exit 1
fi

settings=()
[ -f "$DATA/conf.toml" ] && settings=(--conf "$DATA/conf.toml")
kafka-placement run "${sources[@]}" "${clients[@]}" "${settings[@]}" --warehouse "$DATA/warehouse" --report "$DATA/report.html" \
  "${ALERTS[@]}" > "$log" 2> "$log.err" 9>&-
code=$?
case $code in
  0) ;;
  4) echo "Something is newly at risk, or a threshold is crossed. Report: $DATA/report.html" ;;
  2) echo "A table has a fault: this run wrote nothing to gold." ;;
  *) echo "The run ended with exit code $code; messages below say what failed. Log: $log" ;;
esac
cat "$log.err" # warnings too
find "$DATA/log" -name '*.log*' -mtime +30 -delete
exit $code
