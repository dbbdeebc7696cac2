#!/bin/bash
# Run the command on a Spark cluster: MASTER=spark://HOST:7077 jobs/spark-submit.sh run SOURCE... --warehouse DIR
#
#   MASTER          spark://HOST:PORT, yarn, or k8s://https://HOST:PORT
#   SPARK_HOME      Spark 4.1 with Scala 2.13; default: pyspark in .venv
#   WHEEL           default: the newest dist/kafka_placement-*.whl (make wheel)
#   JARS            folder of Delta's jars; default: the folder in .venv that make setup fills
#   PYSPARK_PYTHON  a Python with the libraries of requirements.lock, on every machine; default: Python in .venv
#   ENVIRONMENT     yarn: an archive of such a Python, made by venv-pack, which YARN unpacks on every machine
#   IMAGE           k8s: an image with Spark and such a Python; IMAGE_PYTHON: path of that Python, default python3
#   DRIVER_MEMORY, EXECUTOR_MEMORY   default: 4g each
#   SUBMIT_ARGS     more options for spark-submit, separated by spaces: "--name nightly --conf spark.executor.instances=4"
#
# The exit code is that of the command, because the driver runs here (deploy mode client). See docs/spark-cluster.md.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)

fail() {
  echo "spark-submit.sh: $*" >&2
  exit 1
}

[ -n "${MASTER:-}" ] || fail "MASTER is not set. Write MASTER=spark://HOST:7077, yarn or k8s://https://HOST:6443"
wheel=${WHEEL:-$(ls -t "$root"/dist/kafka_placement-*.whl 2> /dev/null | head -1)}
[ -f "$wheel" ] || fail "there is no ${wheel:-wheel in $root/dist}. Run: make wheel"
folder=${JARS:-$root/.venv/share/kafka-placement/jars}
jars=$(ls "$folder"/*.jar 2> /dev/null | paste -sd, || true)
[ -n "$jars" ] || fail "there is no jar in $folder. Run: make setup"
submit=${SPARK_HOME:-$root/.venv}/bin/spark-submit
[ -x "$submit" ] || fail "there is no $submit. Set SPARK_HOME, or run: make setup"
export PYSPARK_PYTHON=${PYSPARK_PYTHON:-$root/.venv/bin/python}

options=()
case $MASTER in
  yarn)
    [ -n "${ENVIRONMENT:-}" ] || fail "ENVIRONMENT is not set: the archive of a Python with the libraries (venv-pack)"
    options=(--archives "$ENVIRONMENT#env" --conf spark.executorEnv.PYSPARK_PYTHON=./env/bin/python)
    export PYSPARK_DRIVER_PYTHON=$PYSPARK_PYTHON PYSPARK_PYTHON=./env/bin/python
    ;;
  k8s://*)
    [ -n "${IMAGE:-}" ] || fail "IMAGE is not set: an image with Spark and a Python that has the libraries"
    options=(--conf "spark.kubernetes.container.image=$IMAGE")
    export PYSPARK_DRIVER_PYTHON=$PYSPARK_PYTHON PYSPARK_PYTHON=${IMAGE_PYTHON:-python3}
    ;;
esac

# shellcheck disable=SC2086 # SUBMIT_ARGS is several arguments
exec "$submit" --master "$MASTER" --deploy-mode client "${options[@]}" \
  --driver-memory "${DRIVER_MEMORY:-4g}" --executor-memory "${EXECUTOR_MEMORY:-4g}" \
  --jars "$jars" --py-files "$wheel" \
  ${SUBMIT_ARGS:-} "$root/jobs/kafka_placement_job.py" "$@"
