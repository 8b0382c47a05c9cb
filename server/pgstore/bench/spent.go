package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"sync"
	"time"
)

// A profiler looks where the time of figures goes.
type profiler struct {
	folder string // keeps the profiles, for go tool pprof; "": nothing does
}

// profile takes two figures of a variant in turns of its own: what the server's connections
// are at, and what the processor is at. name is the profile's.
func (p profiler) profile(ctx context.Context, e effort, name string, open func() (*variant, error)) ([]figure, error) {
	busy, err := measureConnections(ctx, e, open)
	if err != nil {
		return nil, err
	}
	costs, err := p.spent(ctx, e, name, open)
	return []figure{busy, costs}, err
}

// spent is a figure of the processor time that an operation takes while a variant has a turn of its
// own: of the servers and other processes that this process started, and of this process, whose profile it keeps.
func (p profiler) spent(ctx context.Context, e effort, name string, open func() (*variant, error)) (f figure, err error) {
	v, err := warm(ctx, e, open)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	var w work
	var used usage
	taken, err := takeProfile(func() (err error) {
		w, used, _, err = measureTurn(ctx, v, time.Duration(e.slices)*e.slice)
		return err
	})
	if err != nil {
		return f, err
	}
	if p.folder != "" {
		if err := os.WriteFile(filepath.Join(p.folder, name+".pprof"), taken, 0o600); err != nil {
			return f, err
		}
	}
	each := func(t time.Duration) float64 { return inMicroseconds(t) / float64(max(1, w.operations)) }
	return figure{Name: "… " + v.name + ", what the processor is at for each", Measures: []measure{
		number("servers", each(max(0, used.ours-used.self)), microseconds, nil),
		number("this process", each(used.self), microseconds, nil),
	}}, nil
}

// oneProfile: a process can have one taken at a time.
var oneProfile sync.Mutex

// takeProfile returns the profile of this process while do works.
func takeProfile(do func() error) ([]byte, error) {
	oneProfile.Lock()
	defer oneProfile.Unlock()
	var taken bytes.Buffer
	if err := pprof.StartCPUProfile(&taken); err != nil {
		return nil, fmt.Errorf("bench: profile: %w", err)
	}
	defer pprof.StopCPUProfile() // after a panic; else it has ended
	err := do()
	pprof.StopCPUProfile()
	return taken.Bytes(), err
}
