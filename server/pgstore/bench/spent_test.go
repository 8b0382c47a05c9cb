package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime/pprof"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
)

func TestCostOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		want  string
		stack []string
	}{
		{"pgx", []string{"runtime.memmove", "github.com/jackc/pgx/v5.(*Conn).Exec", "github.com/fanonce/fanonce/internal/pgkit.run"}},
		{"goroutines and locks", []string{"internal/sync.(*Mutex).Lock", "sync.(*Mutex).Lock", "github.com/fanonce/fanonce/server/internal/engine.(*Engine).Do"}},
		{"goroutines and locks", []string{"runtime.malg", "runtime.newproc1", "runtime.newproc", "main.callers"}},
		{"random numbers", []string{"internal/runtime/syscall/linux.Syscall6", "crypto/internal/sysrand.read", "crypto/rand.Read", "main.random"}},
		{"fanonce", []string{"slices.Index", "github.com/fanonce/fanonce/internal/pgkit.(*Combiner).leave", "main.callers"}},
		{"the bench", []string{"slices.Concat", "github.com/fanonce/fanonce/server/pgstore/bench.callers"}},
		{"garbage collection", []string{"runtime.scanobject", "runtime.gcDrain", "runtime.gcAssistAlloc", "runtime.mallocgc", "main.main"}},
		{"allocation", []string{"runtime.nextFreeFast", "runtime.mallocgc", "runtime.newobject", "encoding/json.Marshal"}},
		{"goroutines and locks", []string{"internal/runtime/syscall/linux.Syscall6", "internal/runtime/syscall/linux.EpollWait", "runtime.netpoll"}},
		{"sockets", []string{"internal/runtime/syscall/linux.Syscall6", "syscall.write", "internal/poll.(*FD).Write", "github.com/jackc/pgx/v5.x"}},
		{"SHA-256", []string{"crypto/internal/fips140/sha256.block", "github.com/fanonce/fanonce/server/store.NewID"}},
		{"contexts, timers and clocks", []string{"runtime.(*timer).modify", "time.AfterFunc"}},
		{otherCost, []string{"runtime.goexit"}},
		{otherCost, nil},
	} {
		require.Equal(t, tt.want, costOf(tt.stack), "%v", tt.stack)
	}
}

// taken is a profile with so many samples of each stack.
func taken(t *testing.T, samples map[string]int64) []byte {
	t.Helper()
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}}}
	for name, n := range samples {
		f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name}
		l := &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f}}}
		p.Function, p.Location = append(p.Function, f), append(p.Location, l)
		p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{l}, Value: []int64{n}})
	}
	var b bytes.Buffer
	require.NoError(t, p.Write(&b))
	return b.Bytes()
}

func TestPartsOf(t *testing.T) {
	t.Parallel()
	parts, samples, err := partsOf(taken(t, map[string]int64{
		"main.a": 300, "main.b": 100, "github.com/jackc/pgx": 550, "encoding/json.Marshal": 20, "crypto/sha256.block": 19, "no.one": 11,
	}))
	require.NoError(t, err)
	require.EqualValues(t, 1000, samples)
	require.Equal(t, []part{{"pgx", 0.55}, {"the bench", 0.4}, {"encoding/json", 0.02}, {otherCost, 0.03}}, parts)
	parts, samples, err = partsOf(taken(t, nil))
	require.NoError(t, err)
	require.Empty(t, parts)
	require.Zero(t, samples)
	_, _, err = partsOf([]byte("no profile"))
	require.ErrorContains(t, err, "bench: profile:")
}

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
	of := make(map[string]float64)
	for length := 300 * time.Millisecond; of["samples"] < 10; length *= 2 { // a busy machine lets it run later
		require.Less(t, length, time.Minute, "no profile can be taken here")
		f, err := p.spent(t.Context(), effort{slices: 1, slice: length}, "hash", func() (*variant, error) { return hashing(&closed), nil })
		require.NoError(t, err)
		require.True(t, closed)
		require.Equal(t, "… v, what the processor is at for each", f.Name)
		for _, m := range f.Measures {
			require.Nil(t, m.Goal)
			of[m.Name] = m.Value
		}
	}
	require.Positive(t, of["this process"])
	require.Greater(t, of["of it SHA-256"], of["this process"]/2)
	kept, err := os.ReadFile(filepath.Join(p.folder, "hash.pprof"))
	require.NoError(t, err)
	parts, _, err := partsOf(kept)
	require.NoError(t, err)
	require.Equal(t, "SHA-256", parts[0].name)
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
