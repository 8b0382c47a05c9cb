package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/store"
)

func TestRenderFindings_countsInEnglish(t *testing.T) {
	t.Parallel()
	p := &patient{app: &app{}}
	one := []finding{{Severity: severityError}}
	require.Contains(t, p.renderFindings(&doctorOut{Findings: one, Checks: 1}), "1 error, 0 warnings in 1 check\n")
	require.Contains(t, p.renderFindings(&doctorOut{Findings: append(one, one...), Checks: 24}), "2 errors, 0 warnings in 24 checks\n")
	require.Contains(t, p.renderFindings(&doctorOut{Healthy: true, Checks: 1}), "1 check found nothing")
}

// A browsedReader keeps what it is asked.
type browsedReader struct {
	store.Reader
	asked store.BrowseRequest
}

func (b *browsedReader) Browse(_ context.Context, req store.BrowseRequest) ([]store.Record, error) {
	b.asked = req
	return nil, nil
}

// "So long ago" is by the clock that the keys have their times from, not by that of this machine.
func TestKeysList_sinceByTheStoresClock(t *testing.T) {
	t.Parallel()
	theirs := time.Now().Add(-3 * time.Hour)
	r := &browsedReader{}
	keys := &keyring{Reader: r, now: func(context.Context) (time.Time, error) { return theirs, nil }}
	l := keyList{page: page{limit: 1}, since: 15 * time.Minute}
	_, err := l.read(t.Context(), keys, store.Cursor{})
	require.NoError(t, err)
	require.Equal(t, theirs.Add(-15*time.Minute), r.asked.From)
	require.Zero(t, r.asked.To)
}

func TestProgressLine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		what        string
		done, total int64
		elapsed     time.Duration
		want        string
	}{
		{"half", "resolve", 5000, 10_000, 10 * time.Second, "resolve: 5000 of 10000 (50%), 500.0/s, 10s left"},
		{"no total", "sweep of keys", 5, 0, 10 * time.Second, "sweep of keys: 5, 0.5/s, for 10s"},
		{"not begun", "resolve", 0, 7, 3 * time.Second, "resolve: 0 of 7 (0%), for 3s"},
		{"full", "resolve", 7, 7, time.Second, "resolve: 7 of 7 (100%), 7.0/s, 0s left"},
		{"no count", "migrating keys", 0, 0, time.Minute, "migrating keys: for 1m0s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, progressLine(tt.what, tt.done, tt.total, tt.elapsed))
		})
	}
}
