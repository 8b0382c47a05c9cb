-- ReadPlan returns a plan as it was first stored, or no row.
select name, version, hash, lines
from /*schema*/saga_plan
where name = @name and version = @version
