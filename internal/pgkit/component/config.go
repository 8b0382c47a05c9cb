package component

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// A Config has the choices that stores and journals leave alike. Their own
// configurations say what each field means to users.
type Config struct {
	Schema                             string
	LockTimeout, CloseTimeout          time.Duration
	MaxDetached, MaxFlushes, MaxQueued int
	SeparateCommits, AllowNonDurable   bool
	Distributed                        bool // the tables are; the statements must suit
	Logger                             *slog.Logger
}

// Check returns an error that names the field which has a value that it cannot have. Zeros of the
// numbers mean the defaults of [pgkit.NewWriter] and [pgkit.NewCombiner].
func (c Config) Check() error {
	if err := pgkit.CheckSchemaName(c.Schema); err != nil {
		return err
	}
	switch {
	case c.LockTimeout < time.Millisecond || c.LockTimeout > time.Hour:
		return fmt.Errorf("LockTimeout %v is not between 1ms and 1h", c.LockTimeout)
	case c.CloseTimeout < 0:
		return fmt.Errorf("CloseTimeout %v is negative", c.CloseTimeout)
	case c.MaxDetached < 0:
		return fmt.Errorf("MaxDetached %d is negative", c.MaxDetached)
	case c.MaxFlushes < 0:
		return fmt.Errorf("MaxFlushes %d is negative", c.MaxFlushes)
	case c.MaxQueued < 0:
		return fmt.Errorf("MaxQueued %d is negative", c.MaxQueued)
	case c.SeparateCommits && c.MaxFlushes > 0:
		return fmt.Errorf("MaxFlushes %d has no meaning with SeparateCommits", c.MaxFlushes)
	case c.SeparateCommits && c.MaxQueued > 0:
		return fmt.Errorf("MaxQueued %d has no meaning with SeparateCommits", c.MaxQueued)
	}
	return nil
}
