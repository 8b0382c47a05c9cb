package pgjournal

import (
	"errors"
	"fmt"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/server/pgkit"
)

var (
	// ErrArgument: a value that cannot be stored, refused before anything was
	// sent.
	ErrArgument = errors.New("pgjournal: bad argument")
	// ErrConfig: a field of [Config], or of [Roles], has a value that it cannot
	// have.
	ErrConfig = errors.New("pgjournal: bad config")
)

// wrap says what was being done, and speaks of fates in the engine's terms.
func wrap(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgkit.ErrFateUnknown):
		return fmt.Errorf("pgjournal: %s: %w: %w", doing, saga.ErrFateUnknown, err)
	}
	return fmt.Errorf("pgjournal: %s: %w", doing, err)
}
