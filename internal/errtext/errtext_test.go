package errtext_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/errtext"
)

func TestInner(t *testing.T) {
	t.Parallel()
	bad := errors.New("retry: bad config")
	for _, tt := range []struct {
		name  string
		err   error
		known []error
		want  string
	}{
		{"of another package", errors.New("childkey: empty: key"), nil, "empty: key"},
		{"with a known sentinel", fmt.Errorf("%w: Timeout: -1s is negative", bad), []error{bad}, "Timeout: -1s is negative"},
		{"with another sentinel", fmt.Errorf("%w: Timeout", bad), []error{errors.New("sdk: bad request")}, "bad config: Timeout"},
		{"several names", errors.New("a.b NotSent (retry: refused): sdk: saga: closed"), nil, "a.b NotSent (refused): saga: closed"},
		{"a name within a word or a sentence", errors.New("do not retry: mysdk: x"), nil, "do not retry: mysdk: x"},
		{"of a program", errors.New("shop: no tea"), nil, "shop: no tea"},
	} {
		got := errtext.Inner(tt.err, tt.known...)
		require.EqualError(t, got, tt.want, tt.name)
		require.ErrorIs(t, got, tt.err, tt.name)
	}
}
