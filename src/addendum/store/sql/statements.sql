-- Every statement that a store runs, for every dialect. A comment line "name: sentence" opens a statement; a dialect's
-- own file (sqlite.sql) adds to these and may replace one by its name.

-- add_run: Create an empty run; changes nothing if the name is taken.
INSERT INTO runs (run, name, created_at) VALUES (:run, :name, :created_at)
ON CONFLICT DO NOTHING;

-- run: Return one run's header.
SELECT run, name, created_at FROM runs WHERE run = :run;

-- runs: Return the headers of all runs, oldest first.
SELECT run, name, created_at FROM runs WHERE substr(run, 1, 1) <> '@' ORDER BY number;

-- position: Return who may write to a run's journal and where that ends: the lease's token, the last entry's seq and chain.
SELECT leases.token, entries.key & 4294967295, entries.chain
FROM runs LEFT JOIN leases ON leases.run = runs.run
LEFT JOIN entries ON entries.key >= runs.number << 32 AND entries.key < (runs.number + 1) << 32
WHERE runs.run = :run ORDER BY entries.key DESC LIMIT 1;

-- head: Return the last entry's seq and chain.
SELECT entries.key & 4294967295, entries.chain
FROM runs JOIN entries ON entries.key >= runs.number << 32 AND entries.key < (runs.number + 1) << 32
WHERE runs.run = :run ORDER BY entries.key DESC LIMIT 1;

-- add_entry: Put one entry at the end of a run's journal.
INSERT INTO entries (key, kind, chain, body)
VALUES ((SELECT number << 32 | :seq FROM runs WHERE run = :run), :kind, :chain, :body);

-- follow: Put one entry at the end of a journal, if the last one there has this chain; changes nothing otherwise.
-- The run's lease must have this token, unless that is null.
INSERT INTO entries (key, kind, chain, body)
VALUES (coalesce((
    SELECT number << 32 | :seq FROM runs
    WHERE run = :run AND :before = (
        SELECT chain FROM entries WHERE key >= number << 32 AND key < (number + 1) << 32 ORDER BY key DESC LIMIT 1
    ) AND (:token IS NULL OR :token = (SELECT token FROM leases WHERE leases.run = runs.run))
), 0), :kind, :chain, :body);

-- follow_both: Put one entry each at the ends of two journals, if the last ones there have these chains; else nothing.
-- The first run's lease must have this token, unless that is null.
INSERT INTO entries (key, kind, chain, body)
SELECT CASE nth WHEN 1 THEN mine.number << 32 | :seq ELSE theirs.number << 32 | :their_seq END,
    CASE nth WHEN 1 THEN :kind ELSE :their_kind END,
    CASE nth WHEN 1 THEN :chain ELSE :their_chain END,
    CASE nth WHEN 1 THEN :body ELSE :their_body END
FROM runs AS mine CROSS JOIN runs AS theirs CROSS JOIN (SELECT 1 AS nth UNION ALL SELECT 2)
WHERE mine.run = :run AND theirs.run = :their_run AND :before = (
    SELECT chain FROM entries WHERE key >= mine.number << 32 AND key < (mine.number + 1) << 32 ORDER BY key DESC LIMIT 1
) AND :their_before = (
    SELECT chain FROM entries WHERE key >= theirs.number << 32 AND key < (theirs.number + 1) << 32 ORDER BY key DESC LIMIT 1
) AND (:token IS NULL OR :token = (SELECT token FROM leases WHERE leases.run = mine.run));

-- entries: Return a stretch of a journal in its order; the last column weighs.
SELECT entries.key & 4294967295, entries.kind, entries.chain, entries.body
FROM runs JOIN entries ON entries.key > (runs.number << 32) + :after AND entries.key < (runs.number + 1) << 32
WHERE runs.run = :run AND entries.key <= (runs.number << 32) + :upto ORDER BY entries.key;

-- add_blob: Keep a blob; changes nothing if it is there already.
INSERT INTO blobs (digest, data) VALUES (:digest, :data)
ON CONFLICT DO NOTHING;

-- blob: Return one blob.
SELECT data FROM blobs WHERE digest = :digest;

-- lease: Return who drives a run, with nothing for a run that nobody drives.
SELECT leases.token, leases.machine, leases.boot, leases.host, leases.pid, leases.started, leases.since,
       leases.renewed, leases.ticks
FROM runs LEFT JOIN leases ON leases.run = runs.run WHERE runs.run = :run;

-- take_lease: Make one process the run's driver, in place of any other.
INSERT INTO leases (run, token, machine, boot, host, pid, started, since, renewed, ticks)
VALUES (:run, :token, :machine, :boot, :host, :pid, :started, :since, :renewed, :ticks)
ON CONFLICT (run) DO UPDATE SET
    token = excluded.token, machine = excluded.machine, boot = excluded.boot, host = excluded.host,
    pid = excluded.pid, started = excluded.started, since = excluded.since, renewed = excluded.renewed,
    ticks = excluded.ticks;

-- renew_lease: Stamp a lease with the present time, if it is still this one.
UPDATE leases SET renewed = :renewed, ticks = :ticks WHERE run = :run AND token = :token;

-- drop_lease: End a lease, if it is still this one.
DELETE FROM leases WHERE run = :run AND token = :token;

-- version: Return the number of the newest migration that was applied.
SELECT max(version) FROM migrations;

-- add_migration: Note that a migration was applied.
INSERT INTO migrations (version, name) VALUES (:version, :name);
