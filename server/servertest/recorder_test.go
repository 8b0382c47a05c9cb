package servertest

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// A recorder lets a test watch a rule fail.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	failed   bool
	lines    []string
	cleanups []func()
}

// watch runs a rule on c with a recorder instead of c.TB, and returns the recorder.
func watch(l rule, c *check) *recorder {
	r := &recorder{TB: c.TB}
	c.TB = r
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.holds(c)
	}()
	<-done
	for _, f := range r.cleanups {
		f()
	}
	return r
}

func (r *recorder) note(failed bool, line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = r.failed || failed
	r.lines = append(r.lines, line)
}

func (r *recorder) report() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.lines, "\n")
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) Helper()                           {}
func (r *recorder) Log(args ...any)                   { r.note(false, fmt.Sprint(args...)) }
func (r *recorder) Logf(format string, args ...any)   { r.note(false, fmt.Sprintf(format, args...)) }
func (r *recorder) Fail()                             { r.note(true, "failed") }
func (r *recorder) Error(args ...any)                 { r.note(true, fmt.Sprint(args...)) }
func (r *recorder) Errorf(format string, args ...any) { r.note(true, fmt.Sprintf(format, args...)) }
func (r *recorder) FailNow() {
	r.Fail()
	runtime.Goexit()
}

func (r *recorder) Fatal(args ...any) {
	r.Error(args...)
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}
