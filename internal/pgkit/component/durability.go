package component

import (
	"context"
	"errors"
	"fmt"

	"github.com/fanonce/fanonce/internal/pgkit"
)

var (
	// ErrNotDurable is the sentinel that a [DurabilityError] matches.
	ErrNotDurable = errors.New("server forgets commits in a crash")
	// ErrReadOnly: the server is a standby, or set read-only. A connection
	// string with several hosts wants target_session_attrs=read-write.
	ErrReadOnly = errors.New("server is read-only")
)

// A DurabilityError is returned by [CheckServer] for a server whose settings let it forget
// acknowledged commits in a crash, or hide that it may. Work that was done once would then be done
// again.
type DurabilityError struct {
	Setting, Value string // as the session sees it, after ALTER ROLE and ALTER DATABASE
}

func (e *DurabilityError) Error() string {
	return fmt.Sprintf("%v: %s is %s", ErrNotDurable, e.Setting, e.Value)
}

// Is makes the error match [ErrNotDurable].
func (e *DurabilityError) Is(target error) bool { return target == ErrNotDurable }

const serverSettings = `select current_setting('fsync'), current_setting('synchronous_commit'), current_setting('client_min_messages'),
	pg_is_in_recovery() or current_setting('transaction_read_only') = 'on'`

// CheckServer returns [ErrReadOnly] if the server takes no writes. Unless allowNonDurable is true
// it returns a [*DurabilityError] if fsync or synchronous_commit is off. It also does so if
// client_min_messages hides the warning that a commit was not confirmed by a standby. It accepts
// synchronous_commit = local or remote_write: both are durable on the server itself.
func CheckServer(ctx context.Context, db pgkit.Queryer, allowNonDurable bool) error {
	var fsync, commit, messages string
	var readOnly bool
	if err := db.QueryRow(ctx, serverSettings).Scan(&fsync, &commit, &messages, &readOnly); err != nil {
		return fmt.Errorf("settings of the server: %w", err)
	}
	switch {
	case readOnly:
		return ErrReadOnly
	case allowNonDurable:
		return nil
	case fsync == "off":
		return &DurabilityError{Setting: "fsync", Value: fsync}
	case commit == "off":
		return &DurabilityError{Setting: "synchronous_commit", Value: commit}
	case messages == "error":
		return &DurabilityError{Setting: "client_min_messages", Value: messages}
	}
	return nil
}
