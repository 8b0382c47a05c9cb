-- ByIndex is by_index.sql for distributed tables. Each execution of a statement is planned for its
-- arguments, since they choose the nodes.
select set_config('jit', 'off', true), set_config('client_min_messages', 'warning', true),
  set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
  set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
  set_config('enable_material', 'off', true), set_config('random_page_cost', '0.1', true)
