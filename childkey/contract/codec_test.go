package contract_test

import (
	"bytes"
	"encoding/gob"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/contract"
)

// gobCodec is somebody's codec.
type gobCodec struct{ contentType string }

func (c gobCodec) ContentType() string { return c.contentType }

func (gobCodec) Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(v)
	return b.Bytes(), err
}

func (gobCodec) Decode(data []byte, v any) error {
	if err := gob.NewDecoder(bytes.NewReader(data)).Decode(v); err != nil {
		return errors.New("cannot read " + string(data))
	}
	return nil
}

func TestWithCodec(t *testing.T) {
	t.Parallel()
	type lines struct{ SKU string }
	plain := contract.Post[lines, lines]("inventory", "reserve", "/reservations")
	require.Equal(t, contract.JSON, plain.Codec())
	require.Equal(t, contract.JSON, plain.WithCodec(contract.JSON).Codec())

	op := plain.WithCodec(gobCodec{"application/x-gob"})
	require.NoError(t, op.Err())
	require.Equal(t, contract.JSON, plain.Codec(), "an operation is immutable")
	require.Equal(t, "application/x-gob", op.For("a").Codec().ContentType())
	b, err := op.Codec().Encode(lines{"tea"})
	require.NoError(t, err)
	var got lines
	require.NoError(t, op.Codec().Decode(b, &got))
	require.Equal(t, lines{"tea"}, got)

	// Its errors are this package's, and quote nothing.
	_, err = op.Codec().Encode(func() {})
	require.ErrorIs(t, err, contract.ErrBody)
	err = op.Codec().Decode([]byte("a secret"), &got)
	require.ErrorIs(t, err, contract.ErrBody)
	require.NotContains(t, err.Error(), "secret")

	require.NoError(t, op.Codec().Decode(nil, new(struct{})), "nothing was expected")
	require.ErrorIs(t, op.Codec().Decode(nil, &got), contract.ErrBody)
}

func TestWithCodec_rejects(t *testing.T) {
	t.Parallel()
	op := contract.Post[int, int]("inventory", "reserve", "/reservations")
	require.ErrorIs(t, op.WithCodec(nil).Err(), contract.ErrInvalid)
	for _, kind := range []string{"", "gob", "a/b/c", "text/plain; charset", strings.Repeat(" ", 3)} {
		require.ErrorIs(t, op.WithCodec(gobCodec{kind}).Err(), contract.ErrInvalid, kind)
	}
	bad := contract.Post[int, int]("", "reserve", "/reservations")
	require.Equal(t, bad.Err(), bad.WithCodec(nil).Err(), "the first mistake is the cause")
}
