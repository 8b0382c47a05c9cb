package contract_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/contract"
)

type order struct {
	ID    string            `json:"id"`
	Cents int64             `json:"cents"`
	Tags  map[string]string `json:"tags,omitempty"`
	At    time.Time         `json:"at,omitzero"`
}

func TestEncode_sameBytesEveryTime(t *testing.T) {
	t.Parallel()
	tags := map[string]string{}
	for i := range 20 {
		tags[fmt.Sprint(i)] = "x"
	}
	first, err := contract.Encode(order{"42", 100, tags, time.Time{}})
	require.NoError(t, err)
	for range 20 {
		again, err := contract.Encode(order{"42", 100, tags, time.Time{}})
		require.NoError(t, err)
		require.Equal(t, string(first), string(again))
	}
}

type (
	span      struct{ From, To time.Time }
	validity  struct{ Span span }
	scheduled struct {
		validity
		When   *time.Time
		Any    any
		List   []time.Time
		Pair   [2]span
		ByName map[string]*span
		ByTime map[time.Time]string
		Note   string
		Day    day
		Hidden *scheduled `json:"-"`
		own    time.Time
	}
	day struct{ time.Time } // in its own zone
)

func (d day) MarshalJSON() ([]byte, error) { return json.Marshal(d.Format(time.DateOnly)) }

// The same instant in another zone is an equal value, wherever it is in the input. What says that it has
// a text of its own keeps it, and the value itself stays as it is.
func TestEncode_timesInUTC(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 23, 30, 0, 5000, time.UTC)
	in := func(zone *time.Location) *scheduled {
		here := at.In(zone)
		both := span{here, here.Add(time.Hour)}
		s := &scheduled{
			validity: validity{both}, When: &here, Any: []any{here, &both, "text", 1, nil}, List: []time.Time{here}, Pair: [2]span{both},
			ByName: map[string]*span{"a": &both, "none": nil}, ByTime: map[time.Time]string{here: "x"},
			Note: "2026-03-02T01:30:00+02:00", Day: day{at}, own: here,
		}
		s.Hidden = s
		return s
	}
	want, err := contract.Encode(in(time.UTC))
	require.NoError(t, err)
	for _, zone := range []*time.Location{time.FixedZone("", 7200), time.FixedZone("odd", -34200), time.FixedZone("null", 0), time.Local} {
		v := in(zone)
		got, err := contract.Encode(v)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), zone)
		require.Equal(t, in(zone), v, "it was changed")
		got, err = contract.Encode(*v)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "not by a pointer, %v", zone)
	}
	for _, v := range []any{at, &at, []time.Time{at}, map[string]any{"at": at}} {
		got, err := contract.Encode(v)
		require.NoError(t, err)
		require.Contains(t, string(got), `"2026-03-01T23:30:00.000005Z"`)
	}

	east := time.FixedZone("", 7200)
	got, err := contract.Encode(struct {
		Day   day
		At    time.Time
		Names map[time.Time]int
	}{day{at.In(east)}, at.In(east), map[time.Time]int{at: 1, at.In(east): 2}})
	require.NoError(t, err)
	require.Equal(t, `{"Day":"2026-03-02","At":"2026-03-01T23:30:00.000005Z","Names":{"2026-03-01T23:30:00.000005Z":1,"2026-03-02T01:30:00.000005+02:00":2}}`, string(got),
		"a day of its own zone stays, and so do two keys")
}

func TestEncode_badInput(t *testing.T) {
	t.Parallel()
	for _, v := range []any{math.NaN(), math.Inf(1), make(chan int), func() {}} {
		b, err := contract.Encode(v)
		require.ErrorIs(t, err, contract.ErrBody)
		require.Nil(t, b)
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, data string
		ok         bool
	}{
		{"all members", `{"id":"42","cents":100}`, true},
		{"white space around", " {\"id\":\"42\",\"cents\":100}\n", true},
		{"unknown member", `{"id":"42","cents":100,"currency":{"code":"EUR"}}`, true},
		{"empty", "", false},
		{"white space", "  ", false},
		{"cut off", `{"id":"42","cents":1`, false},
		{"two values", `{"id":"42","cents":100}{}`, false},
		{"garbage behind", `{"id":"42","cents":100} x`, false},
		{"wrong type", `{"id":"42","cents":"card-number"}`, false},
		{"overflow", `{"id":"42","cents":9223372036854775808}`, false},
		{"fraction", `{"id":"42","cents":1.5}`, false},
		{"unmarshaler refuses", `{"id":"42","at":"card-number"}`, false},
		{"HTML", "<html>card-number", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got order
			err := contract.Decode([]byte(tt.data), &got)
			if tt.ok {
				require.NoError(t, err)
				require.Equal(t, order{ID: "42", Cents: 100}, got)
				return
			}
			require.ErrorIs(t, err, contract.ErrBody)
			require.NotContains(t, err.Error(), "card-number", "an error must not hold the body")
		})
	}
}

// A number of an any has another type than float64, which has too few digits for an ID or an amount.
func TestDecode_numbers(t *testing.T) {
	t.Parallel()
	const data = `{"id":9007199254740993,"list":[0.10,1e2]}`
	var v any
	require.NoError(t, contract.Decode([]byte(data), &v))
	same, err := contract.Encode(v)
	require.NoError(t, err)
	require.Equal(t, data, string(same))
}

func TestDecodeStrictly(t *testing.T) {
	t.Parallel()
	var got order
	require.NoError(t, contract.DecodeStrictly([]byte(`{"id":"42","cents":100}`), &got))
	require.Equal(t, order{ID: "42", Cents: 100}, got)

	for _, data := range []string{`{"id":"42","price":1}`, `{"price":"card-number"}`, `{"price":{"id":7}}`} {
		err := contract.DecodeStrictly([]byte(data), &got)
		var unknown *contract.MemberError
		require.ErrorAs(t, err, &unknown, data)
		require.Equal(t, "price", unknown.Name)
		require.ErrorIs(t, err, contract.ErrBody)
		require.NotContains(t, err.Error(), "card-number")
	}
	for _, data := range []string{"", "[]", `{"cents":"x","price":1}`, `{"id":"42"} {}`} {
		err := contract.DecodeStrictly([]byte(data), &got)
		require.ErrorIs(t, err, contract.ErrBody, data)
		require.False(t, errors.As(err, new(*contract.MemberError)), data)
	}
	var number struct{ N any }
	require.NoError(t, contract.DecodeStrictly([]byte(`{"n":1e999}`), &number), "what Decode takes, without a member too many")
	require.NoError(t, contract.DecodeStrictly(nil, &struct{}{}))
	require.ErrorAs(t, contract.DecodeStrictly([]byte(`{"price":1}`), &struct{}{}), new(*contract.MemberError))
}

func TestDecode_nothingExpected(t *testing.T) {
	t.Parallel()
	for _, data := range []string{"", " \n", "{}", `{"id":1}`} {
		require.NoError(t, contract.Decode([]byte(data), &struct{}{}), "%q", data)
	}
	require.ErrorIs(t, contract.Decode([]byte("OK"), &struct{}{}), contract.ErrBody)
}

func TestDecode_badTarget(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, contract.Decode([]byte("{}"), nil), contract.ErrBody)
	require.ErrorIs(t, contract.Decode([]byte("{}"), order{}), contract.ErrBody)
}

func TestDecode_causeIsFound(t *testing.T) {
	t.Parallel()
	var cause *json.UnmarshalTypeError
	err := contract.Decode([]byte(`{"cents":"x"}`), new(order))
	require.True(t, errors.As(err, &cause))
	require.Equal(t, "cents", cause.Field)
}

func TestUndo_JSON(t *testing.T) {
	t.Parallel()
	type undo = contract.Undo[order, order]
	unknown, err := contract.Encode(undo{Input: order{ID: "42"}})
	require.NoError(t, err)
	require.JSONEq(t, `{"input":{"id":"42","cents":0}}`, string(unknown))

	var got undo
	require.NoError(t, contract.Decode(unknown, &got))
	require.Nil(t, got.Output)

	known, err := contract.Encode(undo{Output: &order{ID: "7"}})
	require.NoError(t, err)
	require.NoError(t, contract.Decode(known, &got))
	require.Equal(t, "7", got.Output.ID)
}

func ExampleDecode() {
	var o order
	fmt.Println(contract.Decode([]byte(`{"id":"42","cents":100,"new":true}`), &o), o.ID)
	fmt.Println(contract.Decode([]byte(`{"cents":"a lot"}`), &o))
	// Output:
	// <nil> 42
	// contract: body: member "cents" does not fit into int64
}

func TestOperation_Encode(t *testing.T) {
	t.Parallel()
	op := contract.Post[map[string]int, string]("s", "o", "/o")
	got, err := op.Encode(map[string]int{"b": 2, "a": 1})
	require.NoError(t, err)
	require.Equal(t, `{"a":1,"b":2}`, string(got))
	_, err = contract.Post[func(), string]("s", "o", "/o").Encode(nil)
	require.ErrorIs(t, err, contract.ErrBody)
}
