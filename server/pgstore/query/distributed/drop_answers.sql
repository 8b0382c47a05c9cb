-- DropAnswers drops the answers of those of the records whose time is past. The row count says how
-- many. It waits for locks.
update /*schema*/idempotency
set envelope = null
where key = any (@keys::uuid[])
  and envelope is not null and answer_until <= statement_timestamp()
