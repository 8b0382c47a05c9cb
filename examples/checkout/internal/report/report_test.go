package report_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/checkout/internal/checkoutapi"
	"github.com/fanonce/fanonce/examples/checkout/internal/ledger"
	"github.com/fanonce/fanonce/examples/checkout/internal/report"
	"github.com/fanonce/fanonce/examples/internal/faultnet"
)

var update = flag.Bool("update", false, "rewrite testdata")

func receipt(c checkoutapi.Confirmation) string { return c.Receipt }

func TestAudit(t *testing.T) {
	t.Parallel()
	confirmed := func(ids ...string) map[string]checkoutapi.Confirmation {
		accepted := make(map[string]checkoutapi.Confirmation)
		for i, id := range ids {
			accepted[string(rune('a'+i))] = checkoutapi.Confirmation{Receipt: id}
		}
		return accepted
	}
	tests := []struct {
		name     string
		accepted map[string]checkoutapi.Confirmation
		book     []ledger.Tally
		want     report.Hop
		ok       bool
	}{
		{"nothing", nil, nil, report.Hop{Suppressed: 9}, true},
		{
			"each once", confirmed("1", "2"),
			[]ledger.Tally{{Order: "a", IDs: []string{"1"}}, {Order: "b", IDs: []string{"2"}}},
			report.Hop{Effects: 2, Min: 1, Max: 1, Suppressed: 7},
			true,
		},
		{
			"one twice", confirmed("1", "2"),
			[]ledger.Tally{{Order: "a", IDs: []string{"1", "3"}}, {Order: "b", IDs: []string{"2"}}},
			report.Hop{Effects: 3, Min: 1, Max: 2, Doubled: 1, Suppressed: 6},
			false,
		},
		{
			"one lost", confirmed("1", "2"),
			[]ledger.Tally{{Order: "a", IDs: []string{"1"}}},
			report.Hop{Effects: 1, Min: 0, Max: 1, Lost: 1, Suppressed: 8},
			false,
		},
		{
			"another effect than was told", confirmed("1"),
			[]ledger.Tally{{Order: "a", IDs: []string{"2"}}},
			report.Hop{Effects: 1, Min: 1, Max: 1, Lost: 1, Suppressed: 8},
			false,
		},
		{
			"not accepted, took effect", confirmed("1"),
			[]ledger.Tally{{Order: "a", IDs: []string{"1"}}, {Order: "z", IDs: []string{"26"}}},
			report.Hop{Effects: 2, Min: 1, Max: 1, Suppressed: 7},
			true,
		},
		{
			"not accepted, took effect twice", confirmed("1"),
			[]ledger.Tally{{Order: "a", IDs: []string{"1"}}, {Order: "z", IDs: []string{"26", "27"}}},
			report.Hop{Effects: 3, Min: 1, Max: 2, Doubled: 1, Suppressed: 6},
			false,
		},
		{
			"more effects than deliveries", nil,
			[]ledger.Tally{{Order: "a", IDs: strings.Split("1 2 3 4 5 6 7 8 9 10", " ")}},
			report.Hop{Effects: 10, Min: 10, Max: 10, Doubled: 1},
			false,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.want.Name, tt.want.Delivered, tt.want.Unanswered, tt.want.Refused = "payment", 11, 2, 1
			got := report.Audit(tt.accepted, report.Finding{
				Name: "payment", Network: faultnet.Counts{Delivered: 11, Unanswered: 2, Refused: 1}, Ledger: tt.book, Told: receipt,
			})
			require.Equal(t, tt.want, got)
			r := report.Report{Hops: []report.Hop{{Name: "fine"}, got}}
			r.Decide()
			require.Equal(t, tt.ok, r.OK)
		})
	}
}

func sample() *report.Report {
	r := &report.Report{
		Seed: 7, Faults: "brutal", Storage: "a private Postgres",
		Checkouts: 3, Parallel: 2, Accepted: 2, Submissions: 5, Kills: 4, Wall: 1230 * time.Millisecond,
		Unaccepted: []report.Failure{{Order: "order-0003", Error: "no answer"}},
	}
	for i, name := range []string{"checkout", "inventory", "payment", "notification"} {
		r.Hops = append(r.Hops, report.Hop{
			Name: name, Attempts: 8 + i, Delivered: 6, Refused: i, Unanswered: i % 2, Faults: map[faultnet.Kind]int{faultnet.DropRequest: 1, faultnet.Truncate: 1},
			Effects: 2, Min: 1, Max: 1, Suppressed: 4,
		})
	}
	r.Decide()
	return r
}

func doubled() *report.Report {
	r := sample()
	r.Unsafe = true
	r.Hops[2].Effects, r.Hops[2].Max, r.Hops[2].Doubled = 8, 2, 6
	for i := range 6 {
		r.Charged = append(r.Charged, report.Charge{Order: "order-000" + string(rune('1'+i)), Times: 2, Cents: 2010})
	}
	r.Decide()
	return r
}

func TestReport_text(t *testing.T) {
	t.Parallel()
	inMemory := sample()
	inMemory.Storage, inMemory.Unaccepted = report.Memory, nil
	apart := sample()
	apart.Keys = "redis://127.0.0.1:6379"
	empty := sample()
	empty.Accepted = 0
	broken := doubled()
	broken.Unsafe = false
	tests := []struct {
		name   string
		report *report.Report
		want   string
	}{
		{"ok", sample(), "OK: every accepted checkout took effect exactly once at every hop."},
		{"apart", apart, "on a private Postgres and redis://127.0.0.1:6379"},
		{"memory", inMemory, "payment service restarted 4 times"},
		{"unsafe", doubled(), "6 customers were charged more than once, 60.30 too much in all"},
		{"broken", broken, "NOT OK: the guarantee is broken."},
		{"empty", empty, "the run proves nothing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			require.NoError(t, tt.report.WriteText(&b))
			require.Contains(t, b.String(), tt.want)
			file := filepath.Join("testdata", tt.name+".txt")
			if *update {
				require.NoError(t, os.WriteFile(file, b.Bytes(), 0o600))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(want), b.String(), "run go test -update and look at the difference")
		})
	}
}

func TestReport_json(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	require.NoError(t, doubled().WriteJSON(&b))
	var got report.Report
	require.NoError(t, json.Unmarshal(b.Bytes(), &got))
	require.Equal(t, doubled(), &got)
}

// A saga that was undone leaves no effect, and no effect is undone twice.
func TestDecide_sagas(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		sagas *report.Sagas
		ok    bool
	}{
		{"none", nil, true},
		{"all undone", &report.Sagas{Orders: 3, Undone: 3, Reserved: 2, Released: 2}, true},
		{"one not undone", &report.Sagas{Orders: 3, Undone: 2, Reserved: 2, Released: 2}, false},
		{"goods left aside", &report.Sagas{Orders: 3, Undone: 3, Reserved: 3, Released: 2}, false},
		{"goods back that were never aside", &report.Sagas{Orders: 3, Undone: 3, Reserved: 2, Released: 3}, false},
		{"charged", &report.Sagas{Orders: 3, Undone: 3, Reserved: 3, Released: 3, Wrong: 1}, false},
		{"released twice", &report.Sagas{Orders: 3, Undone: 3, Reserved: 3, Released: 3, Twice: 1}, false},
	} {
		r := report.Report{Sagas: tt.sagas}
		r.Decide()
		require.Equal(t, tt.ok, r.OK, tt.name)
		var text bytes.Buffer
		require.NoError(t, r.WriteText(&text))
		require.Equal(t, tt.sagas != nil, strings.Contains(text.String(), "as sagas"), tt.name)
	}
}
