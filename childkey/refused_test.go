package childkey_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
)

// refusals are the errors by the names that testdata/refused.json has for them.
var refusals = map[string]error{
	"empty": childkey.ErrEmpty, "too-long": childkey.ErrTooLong, "too-many": childkey.ErrTooMany, "bad-key": childkey.ErrBadKey,
	"bad-name": childkey.ErrBadName, "bad-scope": childkey.ErrBadScope, "bad-secret": childkey.ErrBadSecret,
}

// TestRefused gives this package the inputs that it must refuse, as every other language must.
func TestRefused(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/refused.json")
	require.NoError(t, err)
	var inputs []struct {
		vector

		Error string `json:"error"`
	}
	require.NoError(t, json.Unmarshal(data, &inputs))
	require.GreaterOrEqual(t, len(inputs), 70)
	for _, in := range inputs {
		want, ok := refusals[in.Error]
		require.True(t, ok, in.Error)
		require.ErrorIs(t, refuse(t, in.vector), want, in.Name)
	}
}

// refuse returns the error of the function that v is for. An empty text is the zero Key.
func refuse(t *testing.T, v vector) error {
	t.Helper()
	keyOf := func(text string) (key childkey.Key) {
		require.NoError(t, key.UnmarshalText([]byte(text)), v.Name)
		return key
	}
	var err error
	switch v.Scheme {
	case "parse":
		_, err = childkey.Parse(v.Parent)
	case "v1":
		_, err = childkey.Derive(keyOf(v.Parent), v.Service, v.Operation, texts(v.Discriminators)...)
	case "hmac":
		keyed, failed := childkey.NewKeyed(v.KeyID, []byte(v.Secret))
		if failed != nil {
			return failed
		}
		_, err = keyed.Derive(keyOf(v.Parent), v.Service, v.Operation, texts(v.Discriminators)...)
	case "legacy":
		_, err = childkey.Legacy(keyOf(v.Parent), v.Service, v.Operation)
	case "parent":
		_, err = childkey.FromParts(v.Namespace, texts(v.Parts)...)
	case "hop":
		_, err = childkey.Hop(v.Scope, v.Namespace, keyOf(v.Key))
	default:
		t.Fatalf("unknown scheme %q", v.Scheme)
	}
	return err
}
