package saga_test

import (
	"context"
	"encoding/json"
	"math/big"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga"
)

type (
	point     [2]int
	textPoint [2]int
	writer    struct{ hidden int }
	saidOnly  int
)

func (p textPoint) MarshalText() ([]byte, error)  { return []byte{byte(p[0]), byte(p[1])}, nil }
func (p *textPoint) UnmarshalText(b []byte) error { *p = textPoint{int(b[0]), int(b[1])}; return nil }
func (w writer) MarshalJSON() ([]byte, error)     { return json.Marshal(w.hidden) }
func (saidOnly) MarshalText() ([]byte, error)     { return []byte("said"), nil }

// defineOf defines a saga whose input, output and result are of that type.
func defineOf[T any]() error {
	_, err := saga.Define("name", 1, func(b *saga.Builder[T, T]) {
		s := saga.StepFunc(b, "a.a", b.Input(), func(_ context.Context, c saga.Call[T]) (T, error) { return c.Input, nil })
		saga.Return(b, s.Output())
	})
	return err
}

func TestDefine_types(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		err  error
		want string // "": none
	}{
		{"keys that are arrays", defineOf[map[[2]int]string](), "[2]int is no key of an object in JSON"},
		{"keys that are of an array type", defineOf[struct{ Of map[point]string }](), "saga_test.point is no key of an object in JSON (field Of of struct"},
		{"keys that are structs", defineOf[[]map[struct{ A int }]int](), "is no key of an object in JSON"},
		{"keys that are anything", defineOf[map[any]int](), "interface {} is no key of an object in JSON"},
		{"keys that nobody reads", defineOf[map[saidOnly]int](), "saga_test.saidOnly has MarshalText and no UnmarshalText"},
		{"JSON that nobody reads", defineOf[writer](), "saga_test.writer has MarshalJSON and no UnmarshalJSON"},
		{"a field that nobody reads", defineOf[struct{ W *writer }](), "saga_test.writer has MarshalJSON and no UnmarshalJSON"},
		{"a text that nobody reads", defineOf[[]saidOnly](), "saga_test.saidOnly has MarshalText and no UnmarshalText"},
		{"what a map holds", defineOf[map[string]chan int](), "chan int has no form in JSON"},
		{"keys of the usual kinds", defineOf[map[string]map[int8]map[uint64]string](), ""},
		{"keys with a text of their own", defineOf[map[textPoint]map[netip.Addr]bool](), ""},
		{"types with methods of their own", defineOf[struct {
			At  time.Time
			Sum big.Int
			Raw json.RawMessage
			N   json.Number
		}](), ""},
	}
	for _, tt := range tests {
		if tt.want == "" {
			require.NoError(t, tt.err, tt.name)
			continue
		}
		require.ErrorIs(t, tt.err, saga.ErrType, tt.name)
		require.ErrorContains(t, tt.err, tt.want, tt.name)
	}
}
