package childkey_test

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
)

// A vector is one object of testdata/vectors.json, see SPEC.md.
type vector struct {
	Name           string     `json:"name"`
	Scheme         string     `json:"scheme"`
	Parent         string     `json:"parent"`
	Service        string     `json:"service"`
	Operation      string     `json:"operation"`
	Discriminators []hexBytes `json:"discriminators_hex"`
	KeyID          string     `json:"kid"`
	Secret         hexBytes   `json:"secret_hex"`
	Namespace      string     `json:"namespace"`
	Scope          string     `json:"scope"`
	Key            string     `json:"key"`
	Parts          []hexBytes `json:"parts_hex"`
	Hex32          string     `json:"hex32"`
	Hex64          string     `json:"hex64"`
	Base64URL22    string     `json:"base64url22"`
	Base64URL43    string     `json:"base64url43"`
	UUID8          string     `json:"uuid8"`
	UUID4          string     `json:"uuid4"`
}

type hexBytes string

func (h *hexBytes) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	*h = hexBytes(b)
	return err
}

func texts(list []hexBytes) []string {
	var out []string
	for _, h := range list {
		out = append(out, string(h))
	}
	return out
}

// want returns the texts of the vector by encoding; those it has.
func (v vector) want() map[childkey.Encoding]string {
	want := map[childkey.Encoding]string{
		childkey.Hex32: v.Hex32, childkey.Hex64: v.Hex64, childkey.Base64URL22: v.Base64URL22,
		childkey.Base64URL43: v.Base64URL43, childkey.UUIDv8: v.UUID8, childkey.UUIDv4: v.UUID4,
	}
	for e, text := range want {
		if text == "" {
			delete(want, e)
		}
	}
	return want
}

func readVectors(tb testing.TB) []vector {
	tb.Helper()
	data, err := os.ReadFile("testdata/vectors.json")
	require.NoError(tb, err)
	var vectors []vector
	require.NoError(tb, json.Unmarshal(data, &vectors))
	require.GreaterOrEqual(tb, len(vectors), 40)
	return vectors
}

func TestVectors(t *testing.T) {
	t.Parallel()
	schemes := map[string]int{}
	for _, v := range readVectors(t) {
		schemes[v.Scheme]++
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			switch v.Scheme {
			case "v1":
				testChildVector(t, v)
			case "hmac":
				testKeyedVector(t, v)
			case "parent":
				key, err := childkey.FromParts(v.Namespace, texts(v.Parts)...)
				require.NoError(t, err)
				require.Equal(t, v.Hex32, key.String())
			case "legacy":
				key, err := childkey.Legacy(childkey.MustParse(v.Parent), v.Service, v.Operation)
				require.NoError(t, err)
				require.Equal(t, v.Hex32, key.String())
			case "hop":
				key, err := childkey.Hop(v.Scope, v.Namespace, childkey.MustParse(v.Key))
				require.NoError(t, err)
				require.Equal(t, v.Hex32, key.String())
			default:
				t.Fatalf("unknown scheme %q", v.Scheme)
			}
		})
	}
	for _, scheme := range []string{"v1", "hmac", "parent", "legacy", "hop"} {
		require.Positive(t, schemes[scheme], scheme)
	}
}

func testChildVector(t *testing.T, v vector) {
	t.Helper()
	parent, ds := childkey.MustParse(v.Parent), texts(v.Discriminators)
	key, err := childkey.Derive(parent, v.Service, v.Operation, ds...)
	require.NoError(t, err)
	require.Equal(t, v.Hex32, key.String())

	sum, err := childkey.Sum(parent, v.Service, v.Operation, ds...)
	require.NoError(t, err)
	requireEncodings(t, v, sum)
}

func testKeyedVector(t *testing.T, v vector) {
	t.Helper()
	parent, ds := childkey.MustParse(v.Parent), texts(v.Discriminators)
	keyed, err := childkey.NewKeyed(v.KeyID, []byte(v.Secret))
	require.NoError(t, err)
	key, err := keyed.Derive(parent, v.Service, v.Operation, ds...)
	require.NoError(t, err)
	require.Equal(t, v.Hex32, key.String())

	sum, err := keyed.Sum(parent, v.Service, v.Operation, ds...)
	require.NoError(t, err)
	requireEncodings(t, v, sum)
}

func requireEncodings(t *testing.T, v vector, sum childkey.Hash) {
	t.Helper()
	require.Len(t, v.want(), len(childkey.Encodings()))
	for e, want := range v.want() {
		key, err := e.Key(sum)
		require.NoError(t, err)
		require.Equal(t, want, key.String(), "%v", e)
	}
}
