package retry_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
)

// The key is one more member of the body, and the rest of the body does not change. A body that
// cannot have the key is refused.
func FuzzSend_keyInTheBody(f *testing.F) {
	f.Add(`{"a":1}`)
	f.Add(`{ }`)
	f.Add(`{"request_id":"mine"}`)
	f.Add(`{"request\u005fid":"mine"}`)
	f.Add(`{"a":"}"}x`)
	f.Add(` {"a": 1.10, "b":2} `)
	f.Add("null")
	f.Fuzz(func(t *testing.T, body string) {
		rt := script(status(200))
		call := post(stubURL)
		call.Body = []byte(body)
		_, err := newClient(t, under(&retry.Profile{BodyField: "request_id"}, over(rt))).Send(t.Context(), call)
		var in map[string]any
		bad := contract.Decode([]byte(body), &in)
		if _, taken := in["request_id"]; bad != nil || in == nil || taken {
			require.ErrorIs(t, err, retry.ErrInvalid)
			require.ErrorIs(t, err, retry.ErrNotSent)
			require.Zero(t, rt.count())
			return
		}
		require.NoError(t, err)
		var out map[string]any
		require.NoError(t, contract.Decode([]byte(rt.bodies[0]), &out))
		in["request_id"] = key.String()
		require.Equal(t, in, out)
		require.Equal(t, body, string(call.Body), "the caller's bytes stay as they are")
	})
}
