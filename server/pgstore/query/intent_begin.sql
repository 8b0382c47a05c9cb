-- Begin stores an intent, and returns when. No row: it is there already, and
-- intent.sql reads it, in a statement of its own that sees what this one ran into.
insert into /*schema*/idempotency_intent (key, namespace, parts)
values (@key, @namespace, @parts)
on conflict (key) do nothing
returning began_at
