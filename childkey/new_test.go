package childkey_test

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
)

func TestNew(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		fn   func() (childkey.Key, error)
		want string
	}{
		{"New", childkey.New, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`},
		{"NewV7", childkey.NewV7, `^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			seen := map[childkey.Key]bool{}
			for range 1000 {
				key, err := tt.fn()
				require.NoError(t, err)
				require.Regexp(t, regexp.MustCompile(tt.want), key.String())
				require.False(t, seen[key], "the same key twice")
				seen[key] = true
			}
		})
	}
}

func TestNewV7_tellsItsTime(t *testing.T) {
	t.Parallel()
	before := time.Now().Truncate(time.Millisecond)
	key, err := childkey.NewV7()
	require.NoError(t, err)
	at, ok := key.V7Time()
	require.True(t, ok)
	require.False(t, at.Before(before))
}

func TestNewFrom_randomSourceFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("no entropy")
	tests := []struct {
		name   string
		random func() io.Reader
		want   error
	}{
		{"fails", func() io.Reader { return iotest.ErrReader(broken) }, broken},
		{"ends early", func() io.Reader { return bytes.NewReader(make([]byte, 15)) }, io.ErrUnexpectedEOF},
		{"is empty", func() io.Reader { return bytes.NewReader(nil) }, io.EOF},
	}
	constructors := map[string]func(io.Reader) (childkey.Key, error){"v4": childkey.NewV4From, "v7": childkey.NewV7From}
	for _, tt := range tests {
		for name, newFrom := range constructors {
			t.Run(tt.name+", "+name, func(t *testing.T) {
				t.Parallel()
				key, err := newFrom(tt.random())
				require.True(t, key.IsZero(), "got a key")
				require.ErrorIs(t, err, childkey.ErrRandom)
				require.ErrorIs(t, err, tt.want)
			})
		}
	}
}

func TestNewFrom_readsItsSource(t *testing.T) {
	t.Parallel()
	key, err := childkey.NewV4From(bytes.NewReader(bytes.Repeat([]byte{0xff}, 16)))
	require.NoError(t, err)
	require.Equal(t, "ffffffff-ffff-4fff-bfff-ffffffffffff", key.String())
}

func TestMust(t *testing.T) {
	t.Parallel()
	require.False(t, childkey.MustNew().IsZero())
	require.Equal(t, "k", childkey.MustParse(`"k"`).String())
	require.Panics(t, func() { childkey.MustParse("a b") })
}
