package retry_test

import (
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/internal/answertest"
	"github.com/fanonce/fanonce/retry"
)

const answers = "testdata/answers.json"

// answersConfig makes three attempts and two polls without a wait.
func answersConfig(tb testing.TB, r answertest.Row) retry.Config {
	tb.Helper()
	cfg := quick
	cfg.MaxAttempts, cfg.MaxPolls, cfg.MaxResponseBytes = 3, 2, r.MaxResponseBytes
	cfg.Profile = r.ClientProfile(tb)
	if r.Failure == "silent" {
		cfg.AttemptTimeout = time.Second
	}
	return cfg
}

// TestSend_answers plays the rows of HTTP over sockets: each answer as the first one, and after one that was lost.
func TestSend_answers(t *testing.T) {
	t.Parallel()
	for _, r := range answertest.Rows(t, answers, "http") {
		if r.Only != "" {
			continue
		}
		t.Run(r.Name(), func(t *testing.T) {
			t.Parallel()
			for doubt, want := range map[bool]answertest.End{false: r.First, true: r.Doubt} {
				client := newClient(t, answersConfig(t, r))
				t.Cleanup(client.Close)
				call := post(answertest.Serve(t, r, doubt))
				if r.Method != "" {
					call.Method, call.Body, call.Key = r.Method, nil, childkey.Key{}
				}
				resp, err := client.Send(t.Context(), call)
				require.Equal(t, want, endOf(t, resp, err), "doubt %v: %v", doubt, err)
				var failed *retry.Error
				if errors.As(err, &failed) && r.Failure == "" {
					require.Equal(t, r.Status, failed.Status)
					require.EqualValues(t, r.Code, failed.Code)
				}
			}
		})
	}
}

func endOf(t *testing.T, resp *retry.Response, err error) answertest.End {
	t.Helper()
	if err == nil {
		return answertest.End{Outcome: retry.Completed.String(), Attempts: resp.Attempts}
	}
	var failed *retry.Error
	require.ErrorAs(t, err, &failed)
	return answertest.End{Outcome: failed.Outcome.String(), Attempts: failed.Attempts}
}

// breaks are what code of the caller's can do to an attempt.
var breaks = map[string]func(*retry.Config){
	"a transport refuses before it sends, and calls no hooks": func(cfg *retry.Config) { cfg.Transport = script(fails(errBroken)) },
	"a transport drops the answer": func(cfg *retry.Config) {
		base := retry.NewTransport()
		cfg.Transport = roundTrip(func(req *http.Request) (*http.Response, error) {
			resp, err := base.RoundTrip(req)
			if err == nil {
				_ = resp.Body.Close()
			}
			return nil, errBroken
		})
	},
	"Prepare fails": func(cfg *retry.Config) { cfg.Prepare = func(int, *http.Request) error { return errBroken } },
}

// TestSend_attemptsWithoutAnAnswer has a row for each way in which an attempt ends without an answer. TestSend_everyFailure
// plays the failures of the network as the first attempts of calls; here somebody has sent the call before.
func TestSend_attemptsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	troubles := make(map[string]*trouble)
	for _, row := range slices.Concat(unsentTroubles, handshakeTroubles, sentTroubles, frameTroubles) {
		troubles[row.name] = &row
	}
	for _, r := range answertest.Rows(t, answers, "http") {
		if r.Only != "go" {
			continue
		}
		row := troubles[r.Failure]
		delete(troubles, r.Failure)
		if row == nil {
			playBreak(t, r)
			continue
		}
		require.Equal(t, row.outcome.String(), r.First.Outcome, r.Name())
		if row.attempts == 1 {
			require.Equal(t, 1, r.First.Attempts, r.Name())
		} else {
			require.Equal(t, 3, r.First.Attempts, r.Name())
		}
		t.Run(r.Failure, func(t *testing.T) {
			t.Parallel()
			p := protocols[slices.IndexFunc(protocols, func(p protocol) bool { return row.never[p] == "" })]
			s := row.scene(t, p, 1<<30)
			s.call.Resumed, s.cfg.MaxAttempts = true, 3
			if row.timeout != nil {
				row.timeout(&s.cfg, 200*time.Millisecond)
			}
			failed := failureContext(t, s.ctx, newClient(t, s.cfg), s.call)
			s.cancel()
			require.Equal(t, r.Doubt, endOf(t, nil, failed), "%v", failed)
		})
	}
	require.Empty(t, troubles, "they have no row in the table")
}

func playBreak(t *testing.T, r answertest.Row) {
	t.Helper()
	require.Contains(t, breaks, r.Failure)
	for doubt, want := range map[bool]answertest.End{false: r.First, true: r.Doubt} {
		srv, _ := serve(t, plain, okay)
		cfg := answersConfig(t, r)
		breaks[r.Failure](&cfg)
		call := post(srv.URL)
		call.Resumed = doubt
		resp, err := newClient(t, cfg).Send(t.Context(), call)
		require.Equal(t, want, endOf(t, resp, err), "%s: %v", r.Name(), err)
	}
}

// TestAnswers_areTotal finds a row for each class of status, with and without a mark, and for each code of package wire. No
// answer but that of the service turns a doubt into a refusal.
func TestAnswers_areTotal(t *testing.T) {
	t.Parallel()
	type class struct{ who, evidence string }
	have := make(map[class]bool)
	codes := make(map[string]bool)
	for _, r := range answertest.Rows(t, answers, "http") {
		switch {
		case r.Who == "guard":
			codes[r.Code] = true
		case r.Who == "handler", r.Who == "proxy":
			have[class{r.Who, retry.StatusVerdict(r.Status).Evidence}] = true
		}
		if r.Who != "guard" && r.Who != "handler" && r.Who != "vendor" {
			require.NotContains(t, []string{"Rejected", "NotSent"}, r.Doubt.Outcome, r.Name())
		}
	}
	for status := 200; status <= 599; status++ {
		evidence := retry.StatusVerdict(status).Evidence
		require.True(t, have[class{"proxy", evidence}], "no row for a proxy's %d: %s", status, evidence)
		if status != 460 && status != 499 && status != 511 { // no handler answers so
			require.True(t, have[class{"handler", evidence}], "no row for a handler's %d: %s", status, evidence)
		}
	}
	for _, s := range wire.Situations() {
		require.True(t, codes[string(s.Code)], "no row for the guard's %s", s.Code)
	}
}
