-- ReaderIndex returns one row: whether an index on (created_at, id) of all sagas is there and valid, and whether the role
-- may read why sagas failed.
select exists (
    select
    from pg_index x
    join pg_attribute one on one.attrelid = x.indrelid and one.attnum = x.indkey[0]
    join pg_attribute two on two.attrelid = x.indrelid and two.attnum = x.indkey[1]
    where x.indrelid = '/*schema*/saga'::regclass and x.indisvalid and x.indpred is null
      and one.attname = 'created_at' and two.attname = 'id'),
  has_column_privilege('/*schema*/saga', 'cause', 'select') and has_column_privilege('/*schema*/saga', 'stuck_on', 'select')
