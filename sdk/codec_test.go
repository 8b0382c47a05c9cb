package sdk_test

import (
	"bytes"
	"encoding/gob"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

type gobCodec struct{}

func (gobCodec) ContentType() string { return "application/x-gob" }

func (gobCodec) Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(v)
	return b.Bytes(), err
}

func (gobCodec) Decode(data []byte, v any) error {
	return gob.NewDecoder(bytes.NewReader(data)).Decode(v)
}

// The operation's codec makes the body, its media type, and reads the answer; in
// a call and in a fan-out.
func TestCall_codec(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in amount
		if err := gob.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		b, _ := gobCodec{}.Encode(charge{ID: "c-1"})
		_, _ = w.Write(b)
	}))
	op := pay.WithCodec(gobCodec{})
	client := newClient(t, d)
	got, err := sdk.Call(parent(t, "order-1"), client, op, amount{5})
	require.NoError(t, err)
	require.Equal(t, charge{ID: "c-1"}, got)
	require.Equal(t, "application/x-gob", d.Requests()[0].Header.Get("Content-Type"))

	fan := client.Fanout(parent(t, "order-2"))
	future := sdk.Add(fan, op, amount{5})
	require.NoError(t, fan.Wait())
	got, err = future.Get(t.Context())
	require.NoError(t, err)
	require.Equal(t, charge{ID: "c-1"}, got)
}

func TestCall_codecFails(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "no gob") }))
	client := newClient(t, d)
	_, err := sdk.Call(parent(t, "order-1"), client, pay.WithCodec(gobCodec{}), amount{5})
	require.ErrorIs(t, err, contract.ErrBody)
	require.ErrorIs(t, err, retry.ErrCompleted, "the effect happened")

	broken := contract.Post[chan int, struct{}]("payment", "charge", "/charges").WithCodec(gobCodec{})
	_, err = sdk.Call(parent(t, "order-2"), client, broken, make(chan int))
	require.ErrorIs(t, err, contract.ErrBody)
	require.ErrorIs(t, err, retry.ErrNotSent)
	require.Len(t, d.Requests(), 1)
}
