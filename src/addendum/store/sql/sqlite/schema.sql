-- The tables as they are after all migrations, to be read in one piece; a test holds the two together.

PRAGMA application_id = 0x4164646D; -- "Addm"

CREATE TABLE migrations (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL
);

CREATE TABLE runs (
    number INTEGER PRIMARY KEY,
    run TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    created_at TEXT NOT NULL
);

-- One b-tree, without an index: `key` is the run's number in its upper half and the seq, which counts from 1, in its
-- lower one (number << 32 | seq). So a journal's entries lie beside each other, an append writes one page, and a body of
-- up to 4 kB stays in its row. There is room for 2^31 - 1 runs of 2^32 - 1 entries each.
-- The chain stands before the body, so that the head is read without following a long body.
CREATE TABLE entries (
    key INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    chain TEXT NOT NULL,
    body TEXT NOT NULL CHECK (typeof(body) = 'text')
);

CREATE TABLE blobs (
    digest TEXT PRIMARY KEY NOT NULL,
    data BLOB NOT NULL CHECK (typeof(data) = 'blob')
);

-- One row for each run that somebody drives. Times: `since` and `renewed` in seconds since 1970, `ticks` in seconds of
-- the monotonic clock of `boot`.
CREATE TABLE leases (
    run TEXT PRIMARY KEY NOT NULL REFERENCES runs (run),
    token TEXT NOT NULL,
    machine TEXT NOT NULL,
    boot TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started TEXT NOT NULL,
    since REAL NOT NULL,
    renewed REAL NOT NULL,
    ticks REAL NOT NULL
);

CREATE TRIGGER runs_only_added BEFORE INSERT ON runs
WHEN EXISTS (SELECT 1 FROM runs WHERE run = NEW.run OR number = NEW.number)
BEGIN SELECT RAISE(IGNORE); END;

CREATE TRIGGER runs_in_reach AFTER INSERT ON runs WHEN NEW.number NOT BETWEEN 1 AND 2147483647
BEGIN SELECT RAISE(ABORT, 'a store has no room for more runs'); END;

CREATE TRIGGER runs_no_update BEFORE UPDATE ON runs
BEGIN SELECT RAISE(ABORT, 'a run is never changed'); END;

CREATE TRIGGER runs_no_delete BEFORE DELETE ON runs
BEGIN SELECT RAISE(ABORT, 'a run is never deleted'); END;

-- Key 0 is no entry's: an insert that goes in on a condition gives it where that doesn't hold, and changes nothing.
CREATE TRIGGER entries_only_added BEFORE INSERT ON entries
WHEN NEW.key IS NOT coalesce(
    (SELECT max(key) FROM entries WHERE key >= (NEW.key >> 32) << 32 AND key < ((NEW.key >> 32) + 1) << 32),
    (SELECT number << 32 FROM runs WHERE number = NEW.key >> 32)
) + 1
BEGIN
    SELECT CASE NEW.key WHEN 0 THEN RAISE(IGNORE)
        ELSE RAISE(ABORT, 'the journal of a run is added to at its end, without a gap') END;
END;

CREATE TRIGGER entries_no_update BEFORE UPDATE ON entries
BEGIN SELECT RAISE(ABORT, 'an entry is never changed'); END;

CREATE TRIGGER entries_no_delete BEFORE DELETE ON entries
BEGIN SELECT RAISE(ABORT, 'an entry is never deleted'); END;

CREATE TRIGGER blobs_only_added BEFORE INSERT ON blobs
WHEN EXISTS (SELECT 1 FROM blobs WHERE digest = NEW.digest OR rowid = NEW.rowid)
BEGIN SELECT RAISE(IGNORE); END;

CREATE TRIGGER blobs_no_update BEFORE UPDATE ON blobs
BEGIN SELECT RAISE(ABORT, 'a blob is never changed'); END;

CREATE TRIGGER blobs_no_delete BEFORE DELETE ON blobs
BEGIN SELECT RAISE(ABORT, 'a blob is never deleted'); END;
