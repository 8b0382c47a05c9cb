-- OwnsAnswers returns whether the session's role may make and drop partitions of the
-- answers.
select pg_has_role(relowner, 'usage')
from pg_class
where oid = '/*schema*/idempotency_answer'::regclass
