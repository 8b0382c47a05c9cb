package pgtest

import (
	"errors"
	"strings"
)

// ErrUnavailable is what an [UnavailableError] matches.
var ErrUnavailable = errors.New("pgtest: no Postgres to be had")

// An UnavailableError is returned by [Start] where there is neither a
// DATABASE_URL nor a folder with the Postgres binaries. It matches
// [ErrUnavailable].
type UnavailableError struct {
	// Looked lists the places that were searched, with what is wrong with those
	// that exist. It is empty if PGTEST_BIN forbade to search.
	Looked []string
}

// Error names the two ways out.
func (e *UnavailableError) Error() string {
	where := EnvBin + "=" + NoBin
	if len(e.Looked) > 0 {
		where = "looked in " + strings.Join(e.Looked, ", ")
	}
	return "pgtest: no Postgres to be had (" + where + "): set DATABASE_URL to a server whose role may create databases, " +
		"or install the PostgreSQL server, so that initdb is on PATH or in /usr/lib/postgresql/*/bin"
}

// Is reports whether target is [ErrUnavailable].
func (e *UnavailableError) Is(target error) bool { return target == ErrUnavailable }
