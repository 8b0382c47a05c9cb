-- ByIndex is the first statement of a transaction that looks sagas up in a large table, and
-- returns one row. Its settings end with the transaction. The planner is to use the indexes,
-- whatever it believes about the table: without statistics it takes a million waiting sagas for a
-- few, and would read all of them. Then it would also compile the statement first, which takes
-- longer than the statement. It plans a prepared statement once, and not anew for the arguments of
-- each call: the indexes leave nothing to choose, and planning takes several times as long as a look
-- that finds nothing.
select set_config('jit', 'off', true), set_config('client_min_messages', 'warning', true),
  set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
  set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
  set_config('enable_material', 'off', true), set_config('random_page_cost', '0.1', true),
  set_config('plan_cache_mode', 'force_generic_plan', true)
