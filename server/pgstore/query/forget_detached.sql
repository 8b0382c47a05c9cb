-- ForgetDetached takes a note of note_detached.sql back.
delete from /*schema*/idempotency_detached
where table_oid = @oid
