-- SettleManyPartitioned is settle_many.sql with the answers in their time partitions. Each answer
-- must have a partition: the sender has made sure of that.
with settled as (
  update /*schema*/idempotency i
  set state = o.state, status = o.status,
    replay_until = case o.state when 2 then statement_timestamp() + o.replay_for end,
    answer_until = statement_timestamp() + o.keep_answer,
    answer_kept_until = case when o.envelope is not null
      then coalesce(statement_timestamp() + o.keep_answer, greatest(i.expires_at, statement_timestamp() + o.replay_for)) end,
    maybe_ran = i.maybe_ran or o.maybe_ran,
    lease_until = case when o.state in (1, 4) then statement_timestamp() else i.lease_until end
  from (select unnest(@keys::uuid[]) as key, unnest(@tokens::uuid[]) as token, unnest(@fences::bigint[]) as fence,
      unnest(@states::smallint[]) as state, unnest(@statuses::integer[]) as status, unnest(@envelopes::bytea[]) as envelope,
      unnest(@replay_fors::interval[]) as replay_for, unnest(@keep_answers::interval[]) as keep_answer,
      unnest(@maybe_rans::boolean[]) as maybe_ran, unnest(@numbers::integer[]) as n) o
  where i.key = o.key and i.token = o.token and i.fence = o.fence and case i.state when 1 then true end
  returning i.key, i.answer_kept_until, o.envelope, o.n,
    case when i.waiters then pg_notify('fanonce_' || i.tableoid, i.key::text) end as notified
), kept as (
  insert into /*schema*/idempotency_answer (kept_until, key, envelope)
  select answer_kept_until, key, envelope from settled where answer_kept_until is not null
)
select n, notified from settled
