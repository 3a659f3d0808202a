-- The entries of a journal lie beside each other, under one number each, in one b-tree (ADR 0054). What is in the store is
-- brought over as it is, also where somebody damaged it; if something can't be, nothing is changed.

DROP TRIGGER entries_only_added;
DROP TRIGGER entries_no_update;
DROP TRIGGER entries_no_delete;

ALTER TABLE entries RENAME TO former;

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

-- NOT INDEXED: an entry that a damaged index doesn't list is there all the same.
INSERT INTO entries (key, kind, chain, body)
SELECT runs.number << 32 | former.seq, former.kind, former.chain, former.body
FROM former NOT INDEXED JOIN runs ON runs.run = former.run
WHERE runs.number BETWEEN 1 AND 2147483647 AND former.seq BETWEEN 1 AND 4294967295
ORDER BY runs.number, former.seq;

CREATE TABLE brought_over (missing INTEGER CHECK (missing = 0));
INSERT INTO brought_over SELECT (SELECT count(*) FROM former NOT INDEXED) - (SELECT count(*) FROM entries);
DROP TABLE brought_over;
DROP TABLE former;

CREATE TRIGGER runs_in_reach AFTER INSERT ON runs WHEN NEW.number NOT BETWEEN 1 AND 2147483647
BEGIN SELECT RAISE(ABORT, 'a store has no room for more runs'); END;

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
