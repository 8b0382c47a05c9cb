package pgkittest

import (
	"testing"
	"time"
)

// The time between two looks of [Until]. It grows: most things come soon, and for the others many looks at a database
// would only take the time of the tests beside this one.
const (
	firstPause   = 2 * time.Millisecond
	longestPause = 20 * time.Millisecond
)

// Until waits for a condition that something else brings about. It fails tb after two minutes.
func Until(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	pause := firstPause
	for end := time.Now().Add(2 * time.Minute); !holds(); pause = min(pause*3/2, longestPause) {
		if time.Now().After(end) {
			tb.Fatalf("waited too long until %s", what)
		}
		time.Sleep(pause)
	}
}
