#!/usr/bin/env bash
# Question: how many transactions per second, and how much server CPU each, does Collie need beside PostgreSQL 15?
# Method: pgbench scale 10, both servers on this machine, synchronous_commit = on, runs in turn; JSON lines, then ratios.
# usage: bench/compare.sh [RUNS] [SECONDS]    as root (PostgreSQL runs as user postgres); needs `make run`'s release build
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${1:-3} seconds=${2:-5}
bin=/usr/lib/postgresql/15/bin
collie=${CARGO_TARGET_DIR:-target}/release/collie
dir=$(mktemp -d); chown postgres "$dir"; chmod 755 "$dir"; cp bench/pg_cluster.sh "$dir"; chmod 755 "$dir/pg_cluster.sh"
collie_pid=
stop() {
  [ -n "$collie_pid" ] && kill "$collie_pid" && wait "$collie_pid" || true
  (cd "$dir" && runuser -u postgres -- "$dir/pg_cluster.sh" stop $bin "$dir/pg" >/dev/null 2>&1) || true
  rm -rf "$dir"
}
trap stop EXIT
(cd "$dir" && runuser -u postgres -- "$dir/pg_cluster.sh" init $bin "$dir/pg" 5439)
(cd "$dir" && runuser -u postgres -- "$dir/pg_cluster.sh" start $bin "$dir/pg" >/dev/null)
$bin/createdb -h 127.0.0.1 -p 5439 -U bench bench
"$collie" serve --data "$dir/collie" --listen 127.0.0.1:5440 >"$dir/collie.log" 2>&1 & collie_pid=$!
until grep -q listening "$dir/collie.log"; do kill -0 $collie_pid; sleep 0.1; done
$bin/pgbench -h 127.0.0.1 -p 5439 -U bench -i -s 10 -q bench 2>&1 | tail -n 1
$bin/pgbench -h 127.0.0.1 -p 5440 -U collie -i -s 10 -q collie 2>&1 | tail -n 1
pg_pid=$(head -n 1 "$dir/pg/postmaster.pid")
for _ in $(seq "$runs"); do
  for workload in tpcb-prepared tpcb-simple select-prepared; do
    python3 bench/pgbench_matrix.py --pgbench $bin/pgbench --port 5439 --user bench --db bench --label postgresql \
      --workloads $workload --clients 8,32 --time "$seconds" --server-pid "$pg_pid"
    python3 bench/pgbench_matrix.py --pgbench $bin/pgbench --port 5440 --user collie --db collie --label collie \
      --workloads $workload --clients 8,32 --time "$seconds" --server-pid "$collie_pid"
  done
done | tee "$dir/rows.json" >&2
python3 - "$dir/rows.json" <<'PY'
import collections, json, statistics, sys
tps, cpu = collections.defaultdict(list), collections.defaultdict(list)
for line in open(sys.argv[1]):
    row = json.loads(line)
    key = (row["workload"], row["clients"], row["label"])
    tps[key].append(row["tps"])
    cpu[key].append(row["server_cores"] / row["tps"] * 1e6)
print("workload, clients: ratio of tps median (least to most), server CPU us per transaction Collie / PostgreSQL")
for workload, clients, label in sorted(tps):
    if label != "collie":
        continue
    ours, theirs = (workload, clients, "collie"), (workload, clients, "postgresql")
    ratios = [a / b for a, b in zip(tps[ours], tps[theirs])]
    print(f"{workload}, {clients}: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}), "
          f"{statistics.median(cpu[ours]):.0f} / {statistics.median(cpu[theirs]):.0f}")
PY
