-- Flush is the first statement of a flush, and returns one row. Its settings end with the
-- transaction. The lock timeout is short: if one write of the flush waits, all of them wait. The
-- server must say if no standby confirmed the commit, whatever an earlier user of the connection
-- chose to hear. The planner must look records up one by one in key order. By its own estimate it
-- would often read a table of some ten thousand records as a whole for a flush. That takes ten
-- times as long, and locks would then come in any order. The commit of an asynchronous flush does
-- not wait for the disk: it holds only claims that may be forgotten.
select set_config('lock_timeout', @lock_timeout, true), set_config('client_min_messages', 'warning', true), set_config('enable_seqscan', 'off', true),
  set_config('enable_bitmapscan', 'off', true), set_config('enable_hashjoin', 'off', true),
  set_config('enable_mergejoin', 'off', true), set_config('enable_material', 'off', true),
  set_config('random_page_cost', '0.1', true),
  case when @asynchronous::boolean then set_config('synchronous_commit', 'off', true) end
