-- PruneAudit deletes at most so many lines of the audit log that are older than an
-- age, the oldest first. The row count says how many. Lines are written in the order
-- of their numbers, so that the old ones are found without an index on the time.
delete from /*schema*/idempotency_audit
where id = any (array(
    select id
    from /*schema*/idempotency_audit
    where at < statement_timestamp() - @age::interval
    order by id
    limit @limit))
