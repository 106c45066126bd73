-- A table of orders is made in memory, then its last twentieth is asked again and again.
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, amount REAL, note TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 150000)
INSERT INTO orders SELECT i, i * 7919 % 1000, i % 977, hex(randomblob(100)) FROM n;
WITH RECURSIVE again(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM again WHERE k < 120)
SELECT count(*) FROM again, (SELECT customer, sum(amount) FROM orders WHERE id > 142500 GROUP BY customer) WHERE k > 0;
WITH RECURSIVE again(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM again WHERE k < 300)
SELECT sum((SELECT sum(amount) FROM orders WHERE id > 142500 + again.k)) FROM again;
