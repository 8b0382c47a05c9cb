-- Read returns the saga as it is committed, or no row. It locks nothing.
-- The last column tells whether commits wait for a standby: then a saga that is
-- visible here may still be unknown there (confirm.sql).
select clock_timestamp() as now, /*record*/,
  current_setting('synchronous_standby_names') <> '' as synchronous
from /*schema*/saga
where id = @id
