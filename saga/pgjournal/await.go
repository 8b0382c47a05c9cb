package pgjournal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/internal/pgkit/component"
)

const (
	// awaitPause is the first wait before a server that does not answer is asked again.
	// Each further wait is twice as long, up to awaitPauseCap.
	awaitPause    = 100 * time.Millisecond
	awaitPauseCap = time.Second
)

// await calls do until the server answers, or ctx ends. do must be safe to repeat. A server that does
// not answer may be starting, in a failover, or out of connections. await calls waiting, which may be nil, with
// the first of these errors.
func await(ctx context.Context, do func() error, waiting func(error)) error {
	for wait := awaitPause; ; wait = min(2*wait, awaitPauseCap) {
		err := do()
		if err == nil || !outage(err) {
			return err
		}
		if waiting != nil && ctx.Err() == nil {
			waiting(err)
			waiting = nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
			continue
		case <-ctx.Done():
			timer.Stop()
		}
		if errors.Is(err, ctx.Err()) {
			return err
		}
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
}

// outage reports whether err may be gone although nobody changes the configuration.
func outage(err error) bool {
	var schema *component.SchemaError
	var privilege *component.PrivilegeError
	switch {
	case errors.As(err, &schema), errors.As(err, &privilege), isRefused(err):
		return false
	case errors.Is(err, component.ErrNotDurable), errors.Is(err, component.ErrMigrations), errors.Is(err, pgkit.ErrSchemaName):
		return false
	}
	return pgkit.Classify(err) != pgkit.FailureRefused
}
