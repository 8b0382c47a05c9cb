package childkey_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
)

func newKeyed(tb testing.TB, kid string, secret []byte) *childkey.Keyed {
	tb.Helper()
	keyed, err := childkey.NewKeyed(kid, secret)
	require.NoError(tb, err)
	return keyed
}

func TestNewKeyed_badInput(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, kid string
		secret    []byte
		want      error
	}{
		{"no key id", "", make([]byte, 16), childkey.ErrEmpty},
		{"bad key id", "a:b", make([]byte, 16), childkey.ErrBadName},
		{"long key id", longest + "n", make([]byte, 16), childkey.ErrTooLong},
		{"nil secret", "k1", nil, childkey.ErrBadSecret},
		{"short secret", "k1", make([]byte, 15), childkey.ErrBadSecret},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			keyed, err := childkey.NewKeyed(tt.kid, tt.secret)
			if !errors.Is(err, tt.want) || keyed != nil {
				t.Errorf("NewKeyed = %v, %v, want %v", keyed, err, tt.want)
			}
		})
	}
}

func TestKeyed_nilAndZero(t *testing.T) {
	t.Parallel()
	for _, keyed := range []*childkey.Keyed{nil, {}} {
		key, err := keyed.Derive(parent, "payment", "charge")
		require.ErrorIs(t, err, childkey.ErrEmpty)
		require.True(t, key.IsZero())
		require.Empty(t, keyed.KeyID())
		require.Equal(t, "childkey.Keyed()", keyed.String())
	}
}

func TestKeyed_copiesTheSecret(t *testing.T) {
	t.Parallel()
	secret := bytes.Repeat([]byte{7}, 32)
	keyed, same := newKeyed(t, "k1", secret), newKeyed(t, "k1", bytes.Clone(secret))
	clear(secret)
	got, err := keyed.Derive(parent, "payment", "charge")
	require.NoError(t, err)
	want, err := same.Derive(parent, "payment", "charge")
	require.NoError(t, err)
	require.True(t, got == want)
}

func TestKeyed_secretKidAndSchemeCount(t *testing.T) {
	t.Parallel()
	seen := map[childkey.Key]bool{}
	plain, err := childkey.Derive(parent, "payment", "charge")
	require.NoError(t, err)
	seen[plain] = true
	for _, keyed := range []*childkey.Keyed{
		newKeyed(t, "k1", bytes.Repeat([]byte{1}, 16)), newKeyed(t, "k2", bytes.Repeat([]byte{1}, 16)), newKeyed(t, "k1", bytes.Repeat([]byte{2}, 16)),
	} {
		key, err := keyed.Derive(parent, "payment", "charge")
		require.NoError(t, err)
		require.False(t, seen[key])
		seen[key] = true
	}
}

func TestKeyed_neverPrintsTheSecret(t *testing.T) {
	t.Parallel()
	secret := "0123456789abcdef-secret"
	keyed := newKeyed(t, "k1", []byte(secret))
	_, err := keyed.Derive(parent, "payment", "charge") // a state with the secret in it is in the pool now
	require.NoError(t, err)
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		fmt.Fprintf(&out, verb+"\n", keyed)
		fmt.Fprintf(&out, verb+"\n", struct{ K *childkey.Keyed }{keyed})
	}
	slog.New(slog.NewJSONHandler(&out, nil)).Info("derive", "keyed", keyed)
	slog.New(slog.NewTextHandler(&out, nil)).Info("derive", "keyed", keyed)
	for _, form := range []string{secret, fmt.Sprintf("%x", secret), fmt.Sprintf("%X", secret), "48 49 50 51 52"} {
		require.NotContains(t, out.String(), form)
	}
	require.Contains(t, out.String(), "childkey.Keyed(k1)")
}

func TestKeyed_concurrent(t *testing.T) {
	t.Parallel()
	keyed := newKeyed(t, "k1", make([]byte, 32))
	var want []childkey.Key
	for i := range 8 {
		key, err := keyed.Derive(parent, "payment", "charge", fmt.Sprint(i))
		require.NoError(t, err)
		want = append(want, key)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 8 {
				got, err := keyed.Derive(parent, "payment", "charge", fmt.Sprint(i))
				if err != nil || got != want[i] {
					t.Errorf("Derive(%d) = %q, %v, want %q", i, got.String(), err, want[i].String())
				}
			}
		})
	}
	wg.Wait()
}
