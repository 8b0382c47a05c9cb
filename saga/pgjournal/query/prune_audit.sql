-- PruneAudit deletes at most @limit lines of the audit log that are older than @age, the oldest
-- first. The row count is the number of deleted lines. Lines are written in the order of their
-- numbers, so that the old ones are found without an index on the time.
delete from /*schema*/saga_audit
where id = any (array(
    select id
    from /*schema*/saga_audit
    where at < statement_timestamp() - @age::interval
    order by id
    limit @limit))
