package sdk_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

// An earlier run of the handler may have made the call: that a gateway refuses it
// now proves nothing.
func TestCall_inARerun(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		rerun bool
		want  retry.Outcome
	}{
		{"the first run", false, retry.Rejected},
		{"a rerun", true, retry.Unknown},
	}
	for _, tt := range tests {
		d := sdktest.New(t, nil)
		refused := sdktest.Status(http.StatusForbidden, "") // without a guard's mark: a rerun asks again
		d.Script("/charges", refused, refused, refused, refused)
		ctx := wire.NewContext(parent(t, "p"), wire.Inbound{Rerun: tt.rerun})
		_, err := sdk.Call(ctx, newClient(t, d), pay, amount{1})
		require.Equal(t, tt.want, outcome(t, err), tt.name)
	}
}
