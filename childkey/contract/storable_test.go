package contract_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/contract"
)

type (
	base    struct{ ID string }
	another struct{ ID string }
	twice   struct { // JSON calls both "ID", and writes neither
		base2
		another
	}
	base2  = base
	hiding struct {
		Cents int
		card  string
	}
	forgetful struct {
		Cents int
		cache map[string]int `json:"-"`
	}
	failing struct{ Err error }
)

var _ = []any{hiding{card: ""}, forgetful{cache: nil}}

// fields is a codec that keeps what JSON loses, as far as an operation can tell.
type fields struct{}

func (fields) ContentType() string             { return "application/x-fields" }
func (fields) Encode(v any) ([]byte, error)    { return json.Marshal(v) }
func (fields) Decode(data []byte, v any) error { return json.Unmarshal(data, v) }

func requireLost[T any](t *testing.T, name string) {
	t.Helper()
	require.ErrorIs(t, contract.CheckType[T](), contract.ErrType, name)
	require.ErrorIs(t, contract.CheckType[T](), contract.ErrType, "%s, a second time", name)
	for _, err := range []error{
		contract.Post[T, base]("pay", "charge", "/charges").Err(),
		contract.Put[base, T]("pay", "charge", "/charges").Err(),
		contract.Post[contract.Undo[T, base], base]("pay", "refund", "/refunds").Err(),
	} {
		require.ErrorIs(t, err, contract.ErrType, name)
		require.ErrorIs(t, err, contract.ErrInvalid, name)
		require.ErrorContains(t, err, "WithCodec", name)
	}
	require.NoError(t, contract.Post[T, T]("pay", "charge", "/charges").WithCodec(fields{}).Err(), name)
	require.ErrorIs(t, contract.Post[T, T]("pay", "charge", "/charges").WithCodec(contract.JSON).Err(), contract.ErrType, name)
}

func requireKept[T any](t *testing.T, name string) {
	t.Helper()
	require.NoError(t, contract.CheckType[T](), name)
	require.NoError(t, contract.Post[T, T]("pay", "charge", "/charges").Err(), name)
}

// A value that lost a part on its way would be another request under the same key, or another result.
func TestOperation_typesThatJSONLoses(t *testing.T) {
	t.Parallel()
	requireLost[failing](t, "an error")
	requireLost[[]error](t, "errors")
	requireLost[map[string]json.Marshaler](t, "an interface")
	requireLost[chan int](t, "a channel")
	requireLost[func()](t, "a function")
	requireLost[twice](t, "a member that two embedded structs share")
	requireLost[hiding](t, "a member that is not exported, beside one that is")
	requireLost[*[]hiding](t, "deep inside")
	requireKept[forgetful](t, "a member that may be lost")
	requireKept[any](t, "any JSON")
	requireKept[struct{}](t, "nothing")
	requireKept[map[string][]*base](t, "maps, slices and pointers")
	requireKept[json.RawMessage](t, "JSON itself")
}

// A mistake of the declaration goes before the types, and a codec does not mend it.
func TestOperation_typesAndOtherMistakes(t *testing.T) {
	t.Parallel()
	op := contract.Post[chan int, base]("", "charge", "/charges")
	require.ErrorContains(t, op.Err(), "service")
	require.ErrorContains(t, op.WithCodec(fields{}).Err(), "service")
	require.ErrorIs(t, contract.Operation[chan int, base]{}.WithCodec(fields{}).Err(), contract.ErrInvalid)
}
