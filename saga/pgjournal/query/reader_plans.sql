-- ReaderPlans returns all plans.
select name, version, hash, lines
from /*schema*/saga_plan
order by name collate "C", version
