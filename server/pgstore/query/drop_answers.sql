-- DropAnswers looks at a window of the records, from @after on in the order of the sweep's index.
-- It drops the answers in the window that are past their time, at most @limit. It returns one row:
-- where the window ends (null: it was empty), how many records were in it, how many answers it
-- dropped, how many wait for their time, and how many keys in it need a person. The records stay, and stay where they are (HOT). A
-- record that somebody holds is left for the next time: a caller could not leave the wait for it.
-- The commit waits neither for the disk nor for a standby, as in sweep.sql: no read shows an answer
-- that a crash brings back.
with seen as (
  select ctid, expires_at,
    envelope is not null and answer_until <= statement_timestamp() as due,
    envelope is not null and answer_until > statement_timestamp() as waiting,
    state in (4, 5) as needy
  from /*schema*/idempotency
  where expires_at >= @after
  order by expires_at
  limit @window
), dropped as (
  update /*schema*/idempotency
  set envelope = null
  from (select set_config('synchronous_commit', 'off', true) as synchronous_commit) s
  where s.synchronous_commit is not null and ctid = any (array(
      select i.ctid
      from /*schema*/idempotency i
      where i.ctid = any (array(select ctid from seen where due limit @limit))
        and i.envelope is not null and i.answer_until <= statement_timestamp()
      for no key update skip locked
    ))
  returning true
)
select max(expires_at), count(*), (select count(*) from dropped), count(*) filter (where waiting), count(*) filter (where needy)
from seen
