package contract_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
)

type (
	in  struct{}
	out struct{}
	op  = contract.Operation[in, out]
)

func post(path string) op { return contract.Post[in, out]("inventory", "reserve", path) }

func TestOperation(t *testing.T) {
	t.Parallel()
	tests := []struct {
		method  string
		declare func(service, operation, path string) op
	}{
		{"POST", contract.Post[in, out]},
		{"PUT", contract.Put[in, out]},
		{"PATCH", contract.Patch[in, out]},
		{"DELETE", contract.Delete[in, out]},
	}
	for _, tt := range tests {
		t.Run(tt.method, func(t *testing.T) {
			t.Parallel()
			o := tt.declare("inventory", "reserve", "/reservations/{id}")
			require.NoError(t, o.Err())
			require.Equal(t, tt.method, o.Method())
			require.Equal(t, "inventory", o.Service())
			require.Equal(t, "reserve", o.Name())
			require.Equal(t, "/reservations/{id}", o.Pattern())
			require.Nil(t, o.Discriminators())
		})
	}
}

func TestOperation_badNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", childkey.MaxNameBytes+1)
	tests := []struct {
		name, service, operation string
		want                     error
	}{
		{"empty service", "", "reserve", childkey.ErrEmpty},
		{"empty operation", "inventory", "", childkey.ErrEmpty},
		{"colon in service", "a:b", "reserve", childkey.ErrBadName},
		{"space in operation", "inventory", "re serve", childkey.ErrBadName},
		{"long service", long, "reserve", childkey.ErrTooLong},
		{"long operation", "inventory", long, childkey.ErrTooLong},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := contract.Post[in, out](tt.service, tt.operation, "/x")
			require.ErrorIs(t, o.Err(), contract.ErrInvalid)
			require.ErrorIs(t, o.Err(), tt.want)
			_, err := o.At("id", "1").For("d").Path()
			require.ErrorIs(t, err, tt.want, "the first error stays")
		})
	}
}

func TestOperation_zero(t *testing.T) {
	t.Parallel()
	var o op
	require.ErrorIs(t, o.Err(), contract.ErrInvalid)
	require.ErrorIs(t, o.At("id", "1").Err(), contract.ErrInvalid)
	require.ErrorIs(t, o.For("d").Err(), contract.ErrInvalid)
	_, err := o.Path()
	require.ErrorIs(t, err, contract.ErrInvalid)
}

func TestOperation_Invalid(t *testing.T) {
	t.Parallel()
	streams := errors.New("it streams")
	o := post("/x").Invalid(streams)
	require.ErrorIs(t, o.Err(), streams)
	require.ErrorIs(t, o.Err(), contract.ErrInvalid)
	require.ErrorIs(t, o.Invalid(errors.New("later")).For("d").Err(), streams, "the first error stays")
	require.NoError(t, post("/x").Invalid(nil).Err())
}

func TestOperation_For(t *testing.T) {
	t.Parallel()
	ds := []string{"sku", "\x00\xff"}
	o := post("/x").For(ds...)
	ds[0] = "changed"
	require.Equal(t, []string{"sku", "\x00\xff"}, o.Discriminators())
	o.Discriminators()[0] = "changed"
	require.Equal(t, []string{"sku", "\x00\xff"}, o.Discriminators())
	require.Equal(t, []string{"other"}, o.For("other").Discriminators(), "For replaces")
	require.Nil(t, o.For().Discriminators())
}

func TestOperation_For_badInput(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name           string
		discriminators []string
		want           error
	}{
		{"empty", []string{"a", ""}, childkey.ErrEmpty},
		{"too long", []string{strings.Repeat("d", childkey.MaxDiscriminatorBytes+1)}, childkey.ErrTooLong},
		{"too many", make([]string, childkey.MaxDiscriminators+1), childkey.ErrTooMany},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := post("/x").For(tt.discriminators...)
			require.ErrorIs(t, o.Err(), contract.ErrInvalid)
			require.ErrorIs(t, o.Err(), tt.want)
		})
	}
}

// Copies of one declaration are filled in by many goroutines at once.
func TestOperation_copiesShareNothing(t *testing.T) {
	t.Parallel()
	// Three values: append has left room for a fourth, which the copies must not share.
	base := post("/{u}/{v}/{x}/{y}/{z}").At("u", "1").At("v", "2").At("x", "3")
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			value := fmt.Sprint(i)
			path, err := base.At("y", value).At("z", value).Path()
			if want := "/1/2/3/" + value + "/" + value; err != nil || path != want {
				t.Errorf("Path = %q, %v, want %q", path, err, want)
			}
		})
	}
	wg.Wait()
	if _, err := base.Path(); !errors.Is(err, contract.ErrInvalid) {
		t.Errorf("base was changed: error = %v, want %v", err, contract.ErrInvalid)
	}
}

func ExamplePost() {
	type Capture struct {
		Cents int64 `json:"cents"`
	}
	type Receipt struct {
		ID string `json:"id"`
	}
	capture := contract.Post[Capture, Receipt]("payment", "capture", "/charges/{id}/capture")
	path, err := capture.At("id", "ch/7").Path()
	fmt.Println(capture.Method(), path, err)
	fmt.Println(capture.At("charge", "7").Err())
	// Output:
	// POST /charges/ch%2F7/capture <nil>
	// contract: invalid operation: payment capture: path "/charges/{id}/capture" has no {charge}
}

// A reservation for each line of an order: the line's id tells them apart.
func ExampleOperation_For() {
	type Line struct{ SKU string }
	type Hold struct{ ID string }
	reserve := contract.Post[Line, Hold]("inventory", "reserve", "/reservations")
	for _, line := range []string{"line-1", "line-2"} {
		fmt.Println(reserve.For(line).Discriminators())
	}
	// Output:
	// [line-1]
	// [line-2]
}

func TestUndoneBy(t *testing.T) {
	t.Parallel()
	type (
		in   struct{ A string }
		out  struct{ B string }
		undo = contract.Undo[in, out]
	)
	void := contract.Post[undo, struct{}]("payment", "void", "/charges/{id}/void")
	charge := contract.Post[in, out]("payment", "charge", "/charges/{id}")
	require.Nil(t, charge.Undo())

	op := charge.UndoneBy(void)
	require.NoError(t, op.Err())
	require.Nil(t, charge.Undo(), "an operation is immutable")
	got := op.At("id", "a/b").For("line").Undo()
	path, err := got.Path()
	require.NoError(t, err)
	require.Equal(t, "/charges/a%2Fb/void", path)
	require.Equal(t, []string{"line"}, got.Discriminators())
	body, err := got.Encode(undo{Input: in{"x"}, Output: &out{"y"}})
	require.NoError(t, err)
	require.JSONEq(t, `{"input":{"A":"x"},"output":{"B":"y"}}`, string(body))

	got = charge.UndoneBy(void.At("id", "own").For("own")).At("id", "a").For("line").Undo()
	path, err = got.Path()
	require.NoError(t, err)
	require.Equal(t, "/charges/own/void", path, "what it has itself stays")
	require.Equal(t, []string{"own"}, got.Discriminators())

	_, err = op.Undo().Path()
	require.ErrorIs(t, err, contract.ErrInvalid, "the call has no id yet")
	other := contract.Post[undo, int]("payment", "other", "/o")
	require.Equal(t, "other", op.UndoneBy(other).Undo().Name(), "the later one counts")
}

func TestUndoneBy_rejects(t *testing.T) {
	t.Parallel()
	type undo = contract.Undo[int, int]
	charge := contract.Post[int, int]("payment", "charge", "/charges/{id}")
	for _, tt := range []struct {
		undo contract.UndoOperation[int, int]
		want string
	}{
		{nil, "UndoneBy: the undo is nil"},
		{contract.Post[undo, int]("stock", "void", "/v"), "payment charge: undone by stock void: it is of another service"},
		{contract.Put[undo, int]("payment", "charge", "/v"), "same name"},
		{contract.Post[undo, int]("payment", "void", "/v/{charge}"), "{charge} is neither set nor in the path"},
		{contract.Post[undo, int]("payment", "", "/v"), "operation"},
		{contract.Operation[undo, int]{}, "not declared"},
	} {
		err := charge.UndoneBy(tt.undo).Err()
		require.ErrorIs(t, err, contract.ErrInvalid)
		require.ErrorContains(t, err, tt.want)
	}
	bad := contract.Post[int, int]("", "charge", "/charges")
	require.Equal(t, bad.Err(), bad.UndoneBy(nil).Err(), "the first mistake is the cause")
}

// The undo of a call has the line of the call, and names it by its key.
func ExampleOperation_UndoneBy() {
	type Line struct{ SKU string }
	type Hold struct{ ID string }
	release := contract.Post[contract.Undo[Line, Hold], struct{}]("inventory", "release", "/releases")
	reserve := contract.Post[Line, Hold]("inventory", "reserve", "/reservations").UndoneBy(release)
	undo := reserve.For("line-1").Undo()
	fmt.Println(undo.Name(), undo.Discriminators())
	// Output:
	// release [line-1]
}
