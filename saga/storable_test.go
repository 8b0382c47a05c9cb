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

	pointerText struct{ hidden string }

	first  struct{ ID string }
	Second struct{ ID string }
	Third  struct{ Name string }
	Half   struct {
		ID    string
		cents int
	}
	Loop struct {
		N int
		*Loop
	}
)

var _ = Half{cents: 1}

func (p textPoint) MarshalText() ([]byte, error)  { return []byte{byte(p[0]), byte(p[1])}, nil }
func (p *textPoint) UnmarshalText(b []byte) error { *p = textPoint{int(b[0]), int(b[1])}; return nil }
func (w writer) MarshalJSON() ([]byte, error)     { return json.Marshal(w.hidden) }
func (saidOnly) MarshalText() ([]byte, error)     { return []byte("said"), nil }

func (p *pointerText) MarshalText() ([]byte, error) { return []byte(p.hidden), nil }
func (p *pointerText) UnmarshalText(b []byte) error { p.hidden = string(b); return nil }

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
		{"a value whose pointer writes it", defineOf[big.Int](), "big.Int has MarshalJSON on its pointer only, which is not called for a value: use *big.Int"},
		{"a field whose pointer writes it", defineOf[struct{ Sum big.Int }](), "use *big.Int (field Sum of struct"},
		{"a text whose pointer writes it", defineOf[struct{ T pointerText }](), "saga_test.pointerText has MarshalText on its pointer only"},
		{"elements whose pointer writes them", defineOf[[2]big.Int](), "use *big.Int"},
		{"what a map holds and its pointer writes", defineOf[*map[string]big.Int](), "use *big.Int"},
		{"what is first behind a pointer", defineOf[struct {
			P *big.Int
			V big.Int
		}](), "use *big.Int (field V of struct"},
		{"an embedded type whose pointer writes it", defineOf[struct{ big.Int }](), "MarshalJSON on its pointer only"},
		{"pointers, and where they are taken", defineOf[map[string]struct {
			P *big.Int
			S []big.Int
			B *struct{ V [2]big.Int }
			T []pointerText
		}](), ""},
		{"an error", defineOf[struct{ Err error }](), "error is an interface, which JSON cannot read (field Err of struct"},
		{"an interface with methods, in a list", defineOf[[]interface{ Name() string }](), "is an interface, which JSON cannot read"},
		{"an embedded error", defineOf[struct {
			error
			ID string
		}](), "has field error, which JSON leaves out"},
		{"a member of two embedded structs", defineOf[struct {
			first
			Second
		}](), `has two fields that JSON calls "ID"`},
		{"a member that hides an embedded one", defineOf[struct {
			ID string
			*Second
		}](), `has two fields that JSON calls "ID"`},
		{"two members of one name", defineOf[map[string]struct {
			A string `json:"ID"`
			Second
		}](), `has two fields that JSON calls "ID"`},
		{"an unexported member beside others", defineOf[struct {
			ID    string
			cents int
		}](), "has field cents, which JSON leaves out"},
		{"an unexported member of an embedded struct", defineOf[struct{ Half }](), "has field cents, which JSON leaves out"},
		{"an embedded pointer that JSON cannot set", defineOf[struct {
			*first
			N int
		}](), "has field first, which JSON leaves out"},
		{"a type that embeds itself", defineOf[Loop](), ""},
		{"what may be lost, by its tag", defineOf[struct {
			ID    string
			Cache chan int `json:"-"`
			cents int      `json:"-"`
			_     struct{}
		}](), ""},
		{"embedded structs, and anything", defineOf[struct {
			first
			*Third
			Of any
		}](), ""},
		{"what a map holds", defineOf[map[string]chan int](), "chan int has no form in JSON"},
		{"keys of the usual kinds", defineOf[map[string]map[int8]map[uint64]string](), ""},
		{"keys with a text of their own", defineOf[map[textPoint]map[netip.Addr]bool](), ""},
		{"types with methods of their own", defineOf[struct {
			At  time.Time
			Sum *big.Int
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

// A value of a type that Define accepts comes back unchanged. This includes a type whose method
// for encoding has a pointer receiver.
func TestRun_typesComeBack(t *testing.T) {
	t.Parallel()
	type ledger struct {
		Sum  *big.Int
		All  []big.Int
		By   map[string]*big.Int
		Text []pointerText
	}
	inBubble(t, func(s *stage) {
		d := saga.MustDefine("sum", 1, func(b *saga.Builder[ledger, ledger]) {
			first := saga.StepFunc(b, "a.a", b.Input(), func(_ context.Context, c saga.Call[ledger]) (ledger, error) { return c.Input, nil }).Retriable()
			second := saga.StepFunc(b, "b.b", first.Output(), func(_ context.Context, c saga.Call[ledger]) (ledger, error) { return c.Input, nil }).Retriable()
			saga.Return(b, second.Output())
		})
		large, ok := new(big.Int).SetString("123456789012345678901234567890", 10)
		require.True(s, ok)
		in := ledger{
			Sum: large, All: []big.Int{*large, *big.NewInt(-1)}, By: map[string]*big.Int{"a": large, "b": nil},
			Text: []pointerText{{"t"}},
		}
		got, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), in)
		require.NoError(s, err)
		require.Equal(s, in, got)
	})
}
