-- Everything once, then one row of the first tenth of the accounts: pgbench -D warm=0 -f hot.sql
\if :warm = 0
SELECT pg_prewarm('pgbench_accounts');
\set warm 1
\endif
\set aid random(1, 10000 * :scale)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
\sleep 1 ms
