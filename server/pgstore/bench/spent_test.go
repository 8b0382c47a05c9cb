package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime/pprof"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hashing is a variant that does nothing but hash, for as long as its turn is.
func hashing(closed *bool) *variant {
	data := make([]byte, 1<<16)
	return &variant{
		name:  "v",
		turn:  callers(1, func(context.Context) error { sha256.Sum256(data); return nil }),
		close: func() error { *closed = true; return nil },
	}
}

// Not parallel: what other tests do meanwhile would be in the profile.
func TestSpent(t *testing.T) {
	closed := false
	p := profiler{folder: t.TempDir()}
	f, err := p.spent(t.Context(), effort{slices: 1, slice: 300 * time.Millisecond}, "hash", func() (*variant, error) { return hashing(&closed), nil })
	require.NoError(t, err)
	require.True(t, closed)
	require.Equal(t, "… v, what the processor is at for each", f.Name)
	require.Equal(t, "this process", f.Measures[1].Name)
	require.Positive(t, f.Measures[1].Value)
	kept, err := os.ReadFile(filepath.Join(p.folder, "hash.pprof"))
	require.NoError(t, err)
	require.NotEmpty(t, kept)
}

// Not parallel, as above: one of these keeps others from taking a profile.
func TestSpent_failures(t *testing.T) {
	_, err := profiler{}.spent(t.Context(), mini, "v", func() (*variant, error) { return nil, errBroken })
	require.ErrorIs(t, err, errBroken)
	for turn := 1; turn <= 2; turn++ {
		n, closed := 0, false
		v := hashing(&closed)
		v.turn = func(context.Context, time.Duration) (work, error) {
			if n++; n == turn {
				return work{}, errBroken
			}
			return work{operations: 1}, nil
		}
		_, err = profiler{}.spent(t.Context(), mini, "v", func() (*variant, error) { return v, nil })
		require.ErrorIs(t, err, errBroken, "in turn %d", turn)
		require.True(t, closed)
	}
	var closed bool
	_, err = profiler{folder: filepath.Join(t.TempDir(), "none")}.spent(t.Context(), mini, "v", func() (*variant, error) { return hashing(&closed), nil })
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = profiler{}.profile(t.Context(), mini, "v", func() (*variant, error) { return nil, errBroken })
	require.ErrorIs(t, err, errBroken)

	require.NoError(t, pprof.StartCPUProfile(io.Discard))
	defer pprof.StopCPUProfile()
	_, err = takeProfile(func() error { return errors.New("not called") })
	require.ErrorContains(t, err, "bench: profile:")
}
