-- Owners returns the engines that own sagas of a distributed table.
select distinct engine
from /*schema*/saga
where status in (1, 2) and engine <> '00000000-0000-0000-0000-000000000000'
  and engine <> 'ffffffff-ffff-ffff-ffff-ffffffffffff' -- of deferred sagas
