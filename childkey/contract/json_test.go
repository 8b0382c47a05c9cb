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
	// contract: body: member "cents" at offset 16 does not fit into int64
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
