package journal

import "time"

// StatsLimit is the highest count in a [Stats]. It means that many sagas, or more.
const StatsLimit = 10_000

// Stats is what [Journal].Stats returns.
type Stats struct {
	ByStatus map[Status]int64
	// Unowned counts the sagas that are Running or Compensating, that no engine with a
	// lease executes, and that are past their WakeAt. They wait for an engine.
	Unowned int64
	// Deferred are those of Unowned that a build left to another one.
	Deferred int64
	// UnownedOf counts the others by plan. A plan that has none is missing.
	UnownedOf map[PlanHash]int64
	// Asleep counts the sagas that are Running or Compensating, and that nobody may claim
	// before their WakeAt.
	Asleep           int64
	OldestUnfinished time.Duration // since CreatedAt; 0 if there is none
	OldestStuck      time.Duration // since CreatedAt of the oldest Stuck saga; 0 if there is none
}
