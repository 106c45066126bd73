"""Reports over a table of orders, of which only the newest tenth is asked for again and again: query.py ROWS ROUNDS."""

import json
import sys
import time

import duckdb

rows, rounds = int(sys.argv[1]), int(sys.argv[2])
base = duckdb.connect(":memory:", config={"threads": 1})
base.execute("SELECT setseed(0.5)")
base.execute(
    "CREATE TABLE orders AS SELECT range AS id, (random() * 10000)::INT AS customer, (random() * 500)::INT AS item,"
    " random() * 100 AS price, md5(range::VARCHAR) AS note FROM range(?)",
    [rows],
)
base.execute("CREATE TABLE items AS SELECT range AS item, 'item ' || range AS name FROM range(501)")
begun = time.monotonic()
seen = 0
for _ in range(rounds):
    found = base.execute(
        "SELECT name, count(*), sum(price) FROM orders JOIN items USING (item) WHERE id >= ? GROUP BY name ORDER BY 3",
        [rows * 9 // 10],
    ).fetchall()
    seen += len(found)
seconds = time.monotonic() - begun
print(json.dumps({"roi_s": seconds, "rounds_per_s": rounds / seconds, "rows": seen}))
