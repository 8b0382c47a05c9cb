-- SettleManyPartitioned is settle_many.sql with the answers in their time partitions. Each answer
-- must have a partition: the sender has made sure of that.
with settled as (
  update /*schema*/idempotency i
  set state = o.state, status = o.status,
    replay_until = statement_timestamp() + o.replay_for,
    answer_until = statement_timestamp() + o.keep_answer,
    answer_kept_until = greatest(statement_timestamp() + coalesce(o.keep_answer, o.replay_for),
      case when o.keep_answer is null then i.expires_at end),
    maybe_ran = i.maybe_ran or o.maybe_ran,
    lease_until = least(i.lease_until, statement_timestamp() + o.lease_left)
  from (select unnest(@keys::uuid[]) as key, unnest(@tokens::uuid[]) as token, unnest(@fences::bigint[]) as fence,
      unnest(@states::smallint[]) as state, unnest(@statuses::integer[]) as status, unnest(@envelopes::bytea[]) as envelope,
      unnest(@replay_fors::interval[]) as replay_for, unnest(@keep_answers::interval[]) as keep_answer,
      unnest(@maybe_rans::boolean[]) as maybe_ran, unnest(@lease_lefts::interval[]) as lease_left, unnest(@numbers::integer[]) as n) o
  where i.key = o.key and i.token = o.token and i.fence = o.fence and case when i.state = 1 then true end
--distributed and i.key = any (@keys)
  returning i.key, i.answer_kept_until, o.envelope, o.n
    , case when i.waiters then pg_notify('fanonce_' || i.tableoid, i.key::text) end as notified -- plain
--distributed , null::text as notified
), kept as (
  insert into /*schema*/idempotency_answer (kept_until, key, envelope)
  select answer_kept_until, key, envelope from settled
)
select n, notified from settled
