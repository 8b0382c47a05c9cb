package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// A journal collects the lines of a logger, as JSON.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(j, &slog.HandlerOptions{Level: level}))
}

// lines returns the lines that hold text.
func (j *journal) lines(tb testing.TB, text string) (all []map[string]any) {
	tb.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(j.text.String()) {
		if strings.Contains(line, text) {
			fields := map[string]any{}
			require.NoError(tb, json.Unmarshal([]byte(line), &fields))
			all = append(all, fields)
		}
	}
	return all
}

// A key that needs a person has one ID: in the problem, the log and the operators' verbs.
func TestLog_oneIDForTheKeyThatNeedsAPerson(t *testing.T) {
	t.Parallel()
	var log journal
	g := newGuard(t, memstore.New(), server.Config{Logger: log.logger(slog.LevelWarn)})
	h := newRoute(t, g, server.Opaque, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	require.Equal(t, http.StatusBadGateway, send(h, "k", "b").Code)
	became := log.lines(t, "became outcome-unknown")
	require.Len(t, became, 1, "it is known before anybody asks again")

	w := send(h, "k", "b")
	requireCode(t, w, wire.OutcomeUnknown)
	refused := log.lines(t, `"code":"outcome-unknown"`)
	require.Len(t, refused, 1)
	require.Equal(t, "WARN", refused[0]["level"])
	stuck, err := g.ListStuck(t.Context(), store.ListRequest{})
	require.NoError(t, err)
	require.Len(t, stuck, 1)
	require.Equal(t, stuck[0].ID.String(), became[0]["id"])
	require.Equal(t, stuck[0].ID.String(), refused[0]["id"])

	p, _ := wire.ParseProblem(w.Header().Get("Content-Type"), w.Body.Bytes())
	id, err := store.ParseID(p.Instance)
	require.NoError(t, err)
	require.Equal(t, stuck[0].ID, id)
	require.NoError(t, g.Resolve(t.Context(), id, stuck[0].Fence, server.NeverHappened(), store.Audit{Actor: "ann", Reason: "asked the bank"}))
}

// A caller that asks repeatedly writes one line in a second, which counts the others.
func TestLog_oneLineASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log journal
		s := &flaky{TxStore: memstore.New()}
		s.claim = func(context.Context, store.ClaimRequest) (store.Record, bool, error) {
			return store.Record{}, false, errDown
		}
		h := newRoute(t, newGuard(t, s, server.Config{Logger: log.logger(slog.LevelDebug)}), server.Keyed, func(http.ResponseWriter, *http.Request) {})
		count := func(code wire.Code) (lines, stoodFor int) {
			for _, line := range log.lines(t, `"code":"`+string(code)+`"`) {
				n, ok := line["count"].(float64)
				if !ok {
					n = 1
				}
				lines, stoodFor = lines+1, stoodFor+int(n)
			}
			return lines, stoodFor
		}
		for range 400 { // for two seconds
			requireCode(t, send(h, "k", "b"), wire.StoreUnavailable)
			requireCode(t, send(h, "k", "b", wire.HeaderFirstSent, "0000-01-01T00:00:00Z"), wire.FirstSentInvalid)
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		for _, code := range []wire.Code{wire.StoreUnavailable, wire.FirstSentInvalid} {
			lines, stoodFor := count(code)
			require.LessOrEqual(t, lines, 4, code)
			require.GreaterOrEqual(t, lines, 3, code)
			require.Equal(t, 400, stoodFor, "%s: no refusal is lost", code)
		}

		// A cause that did not occur for a while counts as new.
		send(h, "k", "b")
		lines, stoodFor := count(wire.StoreUnavailable)
		require.Equal(t, 401, stoodFor)
		require.LessOrEqual(t, lines, 5)
	})
}

// A handler that fails in one way has one line in a second. Another way is another cause.
func TestLog_failuresOfAHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log journal
		mux := http.NewServeMux()
		g := newGuard(t, memstore.New(), server.Config{Logger: log.logger(slog.LevelInfo)})
		require.NoError(t, server.Handle(mux, g, reserve, server.Keyed, func(_ context.Context, in lines) (hold, error) {
			return hold{}, errors.New("the " + in.SKU + " burns")
		}))
		for n := range 100 {
			for _, sku := range []string{"printer", "house"} {
				r := httptest.NewRequest(http.MethodPost, "/shelves/a/reservations", strings.NewReader(`{"sku":"`+sku+`"}`))
				r.Header.Set(wire.HeaderKey, sku+strconv.Itoa(n))
				require.Equal(t, http.StatusInternalServerError, serve(mux, r).Code)
			}
		}
		time.Sleep(3 * time.Second)
		for _, sku := range []string{"printer", "house"} {
			burnt := log.lines(t, "the "+sku+" burns")
			require.Len(t, burnt, 2)
			require.NotContains(t, burnt[0], "count")
			require.EqualValues(t, 99, burnt[1]["count"])
			require.NotEqual(t, burnt[0]["id"], burnt[1]["id"])
		}
	})
}

// Causes above the limit of remembered causes share their lines: memory is bounded, and no cause is lost.
func TestLog_manyCauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log journal
		h := newRoute(t, newGuard(t, memstore.New(), server.Config{Logger: log.logger(slog.LevelWarn)}), server.Opaque,
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
		const keys = 3000
		for n := range keys {
			send(h, strconv.Itoa(n), "b")
		}
		time.Sleep(3 * time.Second)
		all := log.lines(t, "became outcome-unknown")
		require.Less(t, len(all), 1100)
		stoodFor := 0
		for _, line := range all {
			n, ok := line["count"].(float64)
			if !ok {
				n = 1
			}
			stoodFor += int(n)
		}
		require.Equal(t, keys, stoodFor)
	})
}

// Each key that needs a person has its own lines: one key must not hide another.
func TestLog_everyKeyThatNeedsAPerson(t *testing.T) {
	t.Parallel()
	var log journal
	h := newRoute(t, newGuard(t, memstore.New(), server.Config{Logger: log.logger(slog.LevelWarn)}), server.Opaque,
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	ids := map[any]bool{}
	for _, key := range []string{"a", "b", "c"} {
		send(h, key, "b")
		requireCode(t, send(h, key, "b"), wire.OutcomeUnknown)
	}
	for _, line := range log.lines(t, `"code":"outcome-unknown"`) {
		ids[line["id"]] = true
	}
	require.Len(t, ids, 3)
}

// The cause of a typed handler's verdict is only in the log.
func TestLog_causeOfAVerdict(t *testing.T) {
	t.Parallel()
	var log journal
	mux := http.NewServeMux()
	g := newGuard(t, memstore.New(), server.Config{Logger: log.logger(slog.LevelInfo)})
	verdicts := map[string]error{
		"declined": &server.StatusError{Status: http.StatusPaymentRequired, Code: "declined", Err: errors.New("limit of the card")},
		"no cause": &server.StatusError{Status: http.StatusPaymentRequired, Code: "declined"},
		"failed":   errors.New("the printer burns"),
	}
	require.NoError(t, server.Handle(mux, g, reserve, server.Keyed, func(_ context.Context, in lines) (hold, error) {
		return hold{}, verdicts[in.SKU]
	}))
	for sku := range verdicts {
		r := httptest.NewRequest(http.MethodPost, "/shelves/a/reservations", strings.NewReader(`{"sku":"`+sku+`"}`))
		r.Header.Set(wire.HeaderKey, strings.ReplaceAll(sku, " ", "-"))
		w := serve(mux, r)
		require.NotContains(t, w.Body.String(), "limit of the card")
		require.NotContains(t, w.Body.String(), "burns")
	}
	refused := log.lines(t, "limit of the card")
	require.Len(t, refused, 1)
	require.Equal(t, "INFO", refused[0]["level"])
	id, err := store.ParseID(refused[0]["id"].(string))
	require.NoError(t, err)
	require.NotZero(t, id)
	failed := log.lines(t, "burns")
	require.Len(t, failed, 1)
	require.Equal(t, "ERROR", failed[0]["level"])
	require.NotEmpty(t, failed[0]["id"])
	require.Len(t, log.lines(t, "handler"), 2)
}
