-- Statements of the SQLite dialect only.

-- begin: Start a transaction that writes; taking the lock at once, so that it can't fail for a stale snapshot later.
BEGIN IMMEDIATE;

-- commit: Make the transaction durable.
COMMIT;

-- roll_back: Undo the transaction.
ROLLBACK;

-- application: Return the number that marks a file as a store of this program; 0 in an empty file.
PRAGMA application_id;

-- tables: Count what the file has in it.
SELECT count(*) FROM sqlite_master;

-- journal_mode: Let readers and the writer go on beside each other; the answer is the mode that the file now has.
PRAGMA journal_mode = WAL;

-- synchronous: Wait for the disk in every commit.
PRAGMA synchronous = FULL;

-- checkpoint: Fold the log into the file after this many pages, as writing a short log over is faster than growing it.
PRAGMA wal_autocheckpoint = 128;

-- fullfsync: Wait for the disk itself, not only its cache, where the system tells them apart (macOS).
PRAGMA fullfsync = ON;

-- foreign_keys: Refuse leases of runs that aren't there.
PRAGMA foreign_keys = ON;

-- cell_size_check: Notice a damaged page when it is read.
PRAGMA cell_size_check = ON;

-- trusted_schema: Run no function that a file's own schema asks for.
PRAGMA trusted_schema = OFF;
