package main_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/server/store"
)

func Example() {
	cmd := exec.Command(binary, "key", "derive", "order-42", "payment", "charge")
	cmd.Stdout = os.Stdout
	if err := cmd.Run(); err != nil {
		panic(err)
	}
	// Output: 494fff7bfe77d7cb949a14c86ed078df
}

// The program derives the keys of the vectors of the specification.
func TestKeyDerive_vectors(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("../../../childkey/testdata/vectors.json")
	require.NoError(t, err)
	var vectors []map[string]any
	require.NoError(t, json.Unmarshal(file, &vectors))
	checked := 0
	for _, v := range vectors {
		args := []string{"--", text(v["parent"]), text(v["service"]), text(v["operation"])}
		more, isText := discriminators(t, v["discriminators_hex"])
		if v["scheme"] != "v1" || !isText {
			continue
		}
		for _, encoding := range childkey.Encodings() {
			want, ok := v[encoding.String()]
			if !ok {
				continue
			}
			got := fanonce(t, append(append([]string{"key", "derive", "--encoding", encoding.String()}, args...), more...)...).requireCode(t, 0)
			require.Equal(t, text(want)+"\n", got.stdout, "%s %s", v["name"], encoding)
			checked++
		}
	}
	require.Greater(t, checked, 10)
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// discriminators decodes those of a vector. It reports false for bytes that cannot be arguments of a process.
func discriminators(t *testing.T, v any) (out []string, isText bool) {
	list, _ := v.([]any)
	for _, item := range list {
		data, err := hex.DecodeString(text(item))
		require.NoError(t, err)
		if bytes.IndexByte(data, 0) >= 0 {
			return nil, false
		}
		out = append(out, string(data))
	}
	return out, true
}

func TestKeyDerive(t *testing.T) {
	t.Parallel()
	parent := childkey.MustParse("order-42")
	child, err := childkey.Derive(parent, "payment", "charge")
	require.NoError(t, err)
	r := call{stdin: "order-42\r\nrest", args: []string{"key", "derive", "--json", "-", "payment", "charge"}}.run(t).requireCode(t, 0)
	require.Equal(t, child.String(), parse[struct{ Key string }](t, r).Key)

	hop, err := childkey.Hop("tenant", "shop", parent)
	require.NoError(t, err)
	require.Equal(t, hop.String()+"\n", fanonce(t, "key", "hop", "tenant", "shop", "order-42").stdout)
	child, err = childkey.Derive(hop, "payment", "charge", "a")
	require.NoError(t, err)
	r = fanonce(t, "key", "derive", "--scope", "tenant", "--namespace=shop", "order-42", "payment", "charge", "a")
	require.Equal(t, child.String()+"\n", r.stdout)

	legacy, err := childkey.Legacy(parent, "payment", "charge")
	require.NoError(t, err)
	require.Equal(t, legacy.String()+"\n", fanonce(t, "key", "derive", "--legacy", "order-42", "payment", "charge").stdout)
	id := store.NewID("tenant", "", parent).String()
	require.Equal(t, id+"\n", fanonce(t, "key", "id", "tenant", "", "order-42").stdout)
	for _, verb := range []string{"id", "hop"} {
		require.Contains(t, fanonce(t, "key", verb, "", "shop", "order-42").requireCode(t, 2).stderr, "SCOPE is empty")
	}
	require.Empty(t, fanonce(t, "key", "hop", "", "saga/checkout", "order-42").stderr, "a saga may have none")
}

func TestKeyNew(t *testing.T) {
	t.Parallel()
	out := parse[struct{ Keys []string }](t, fanonce(t, "key", "new", "--count", "3", "--json").requireCode(t, 0))
	require.Len(t, out.Keys, 3)
	require.NotEqual(t, out.Keys[0], out.Keys[1])
	for _, key := range out.Keys {
		require.EqualValues(t, '4', key[14])
	}
	require.EqualValues(t, '7', fanonce(t, "key", "new", "--v7").stdout[14])
}

func TestKeyVerify(t *testing.T) {
	t.Parallel()
	parent := childkey.MustParse("order-42")
	sum, err := childkey.Sum(parent, "payment", "charge")
	require.NoError(t, err)
	for _, e := range childkey.Encodings() {
		child, err := e.Key(sum)
		require.NoError(t, err)
		r := fanonce(t, "key", "verify", child.String(), "order-42", "payment", "charge").requireCode(t, 0)
		require.Equal(t, "derived, as "+e.String()+"\n", r.stdout)
	}
	legacy, err := childkey.Legacy(parent, "payment", "charge")
	require.NoError(t, err)
	r := fanonce(t, "key", "verify", legacy.String(), "order-42", "payment", "charge").requireCode(t, 0)
	require.Equal(t, "derived, as legacy\n", r.stdout)

	require.Equal(t, "valid\n", fanonce(t, "key", "verify", "order-42").requireCode(t, 0).stdout)
	r = fanonce(t, "key", "verify", "order-42", "order-42", "payment", "charge").requireCode(t, 1)
	require.Equal(t, "fanonce: valid, but not the key of that call\n", r.stderr)
	r = fanonce(t, "key", "verify", "a,b").requireCode(t, 1)
	require.Contains(t, r.stderr, "not valid")
	r = fanonce(t, "key", "verify", "--json", "order-42", "other", "payment", "charge").requireCode(t, 1)
	require.JSONEq(t, `{"valid":true,"derived":false}`, r.stdout)
	require.Empty(t, r.stderr)
}
