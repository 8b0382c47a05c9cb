package pgjournal

import (
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/server/pgkit"
)

var (
	// ErrArgument: a value that cannot be stored, refused before anything was
	// sent. It matches [saga.ErrRefused].
	ErrArgument = fmt.Errorf("pgjournal: bad argument: %w", saga.ErrRefused)
	// ErrConfig: a field of [Config], or of [Roles], has a value that it cannot
	// have.
	ErrConfig = errors.New("pgjournal: bad config")
	// ErrSeal: the [Codec] did not seal a value, so nothing was stored. Or it did not
	// open the value that a start of the same saga must be compared with.
	ErrSeal = errors.New("pgjournal: the codec failed")
)

// wrap says what was being done, and speaks of fates in the engine's terms.
func wrap(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgkit.ErrFateUnknown):
		return fmt.Errorf("pgjournal: %s: %w: %w", doing, saga.ErrFateUnknown, err)
	case refused(err):
		return fmt.Errorf("pgjournal: %s: %w: %w", doing, saga.ErrRefused, err)
	}
	return fmt.Errorf("pgjournal: %s: %w", doing, err)
}

// refusals are the classes of SQLSTATE that say what a repetition does not change: bad
// data, a violated constraint, a wrong password, a missing database, schema, table or
// right. A full disk, a shutdown and an internal error are not among them.
var refusals = []string{"22", "23", "28", "3D", "3F", "42"}

// refused reports whether a repetition of the same request would fail in the same way.
func refused(err error) bool {
	if errors.Is(err, pgkit.ErrClosed) || errors.Is(err, pgkit.ErrStatement) {
		return true
	}
	var answer *pgconn.PgError
	return errors.As(err, &answer) && slices.Contains(refusals, answer.Code[:min(2, len(answer.Code))])
}
