-- DropAnswers looks at a window of the records, from @after on in the order of the
-- sweep's index, and drops the answers in it that are past their time, at most so
-- many. It returns one row: where the window ends (null: it was empty), how many
-- records were in it, how many answers it dropped, and how many wait for their
-- time. The records stay, and stay where they are (HOT).
with seen as (
  select ctid, expires_at,
    envelope is not null and answer_until <= clock_timestamp() as due,
    envelope is not null and answer_until > clock_timestamp() as waiting
  from /*schema*/idempotency
  where expires_at >= @after
  order by expires_at
  limit @window
), dropped as (
  update /*schema*/idempotency
  set envelope = null
  where ctid = any (array(select ctid from seen where due limit @limit))
    and envelope is not null and answer_until <= clock_timestamp()
  returning true
)
select max(expires_at), count(*), (select count(*) from dropped), count(*) filter (where waiting)
from seen
