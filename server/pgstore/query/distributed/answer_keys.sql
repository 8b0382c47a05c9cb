-- AnswerKeys looks at a window of the records, from @after on in the order of the sweep's index. It
-- returns one row. The first two columns are where the window ends (null: it was empty), and how
-- many records were in it. Then come the keys of the records whose answer is past its time (null:
-- none), how many answers wait for their time, and how many keys need a person.
select max(expires_at), count(*), array_agg(key) filter (where due), count(*) filter (where waiting),
  count(*) filter (where needy)
from (
  select key, expires_at,
    envelope is not null and answer_until <= statement_timestamp() as due,
    envelope is not null and answer_until > statement_timestamp() as waiting,
    state in (4, 5) as needy
  from /*schema*/idempotency
  where expires_at >= @after
  order by expires_at
  limit @window
) w
