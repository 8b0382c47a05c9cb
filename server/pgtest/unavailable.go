package pgtest

import (
	"errors"
	"strings"
)

// ErrUnavailable: there is neither a DATABASE_URL nor a folder with the Postgres binaries. The
// text of an error that matches it says where [Start] looked, and what to do about it.
var ErrUnavailable = errors.New("pgtest: no Postgres to be had")

// An unavailableError matches [ErrUnavailable].
type unavailableError struct {
	// looked lists the places that were searched. For a place that exists it
	// names the defect. It is empty if PGTEST_BIN forbade to search.
	looked []string
}

// Error names the two remedies.
func (e *unavailableError) Error() string {
	where := EnvBin + "=" + NoBin
	if len(e.looked) > 0 {
		where = "looked in " + strings.Join(e.looked, ", ")
	}
	return "pgtest: no Postgres to be had (" + where + "): set DATABASE_URL to a server whose role may create databases, " +
		"or install the PostgreSQL server, so that initdb is on PATH or in /usr/lib/postgresql/*/bin"
}

// Is reports whether target is [ErrUnavailable].
func (e *unavailableError) Is(target error) bool { return target == ErrUnavailable }
