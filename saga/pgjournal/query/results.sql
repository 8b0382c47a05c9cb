-- Results returns what the side table has of some sagas.
select saga, revision, position, result
from /*schema*/saga_result
where saga = any (@ids::uuid[])
