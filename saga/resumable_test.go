package saga_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/sdk"
)

// A handler can ask sdk.Resumable of a saga's error. Running the saga again can end
// otherwise only while the saga goes on, or somebody may move it on.
func TestResumable(t *testing.T) {
	t.Parallel()
	unsent := &retry.Error{Outcome: retry.NotSent, Err: retry.ErrDeadline}
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{saga.ErrDetached, true},
		{saga.ErrNotStarted, true},
		{saga.ErrFateUnknown, true},
		{fmt.Errorf("%w: %w", saga.ErrNotStarted, saga.ErrClosed), true},
		{&saga.Error{Status: journal.Stuck, Cause: unsent}, true},
		{&saga.Error{Status: journal.Compensated, Cause: unsent}, false},
		{&saga.Error{Status: journal.Abandoned, Cause: unsent}, false},
		{saga.ErrKeyReused, false},
		{saga.ErrInvalidKey, false},
		{saga.ErrConfig, false},
		{saga.ErrNoDefinition, false},
		{saga.ErrNoResult, false},
		{saga.ErrEncode, false},
	} {
		require.Equal(t, tt.want, sdk.Resumable(tt.err), "%v", tt.err)
		require.Equal(t, tt.want, sdk.Resumable(fmt.Errorf("checkout: %w", tt.err)), "%v, wrapped", tt.err)
	}
}
