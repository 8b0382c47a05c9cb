package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/examples/internal/blackboxtest"
)

func (d *deployment) saga(key, body string) blackboxtest.Request {
	return blackboxtest.Request{URL: d.front.URL + "/v1/sagas", Tenant: "t", Key: key, Body: body}
}

// show returns the status of GET /v1/sagas/{key}, and what it shows.
func show(t *testing.T, front *blackboxtest.Process, tenant, key string) (int, sagaView) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front.URL+"/v1/sagas/"+url.PathEscape(key), nil)
	require.NoError(t, err)
	if tenant != "" {
		req.Header.Set("Authorization", "Bearer "+tenant)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, sagaView{}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	var view sagaView
	if err == nil && resp.StatusCode == http.StatusOK {
		err = json.Unmarshal(body, &view)
	}
	require.NoError(t, err, "%s", body)
	return resp.StatusCode, view
}

// untilOver waits until the saga is neither running nor compensating.
func untilOver(t *testing.T, front *blackboxtest.Process, key string) sagaView {
	t.Helper()
	var view sagaView
	over := func() bool {
		_, view = show(t, front, "t", key)
		return view.Status != "" && view.Status != "running" && view.Status != "compensating"
	}
	require.Eventually(t, over, time.Minute, 10*time.Millisecond, "%v", &view)
	return view
}

// ledgerOf counts what a hop did and undid for a saga.
func (d *deployment) ledgerOf(t *testing.T, hop, saga string) (do, undo int) {
	t.Helper()
	require.NoError(t, d.databases[hop].QueryRow(t.Context(), `select count(*) filter (where kind = 'do'),
		count(*) filter (where kind = 'undo') from effects where saga = $1 and tenant = 't'`, saga).Scan(&do, &undo))
	return do, undo
}

// The result of a step in the tests' sagas: how it is shown, and what its hop's ledger has.
var (
	done    = fate{stepView{Outcome: "Completed"}, 1, 0}
	undone  = fate{stepView{Outcome: "Completed", Undo: "Completed"}, 1, 1}
	refused = fate{stepView{Outcome: "Rejected"}, 0, 0}
	unbegun = fate{}
)

type fate struct {
	shown    stepView
	do, undo int
}

func TestSaga(t *testing.T) {
	t.Parallel()
	w := newDeployment(t)
	for _, tt := range []struct {
		name, key, reject, status string
		reserve, charge, receipt  fate
	}{
		{"completes", "s-1", "", "completed", done, done, done},
		// The steps beside the refused step began together with it.
		{"reserve is refused", "s-2", "inventory.reserve", "compensated", refused, undone, unbegun},
		{"charge is refused", "s-3", "payment.charge", "compensated", undone, refused, unbegun},
		{"receipt is refused", "s-4", "notification.receipt", "compensated", undone, undone, refused},
		{"a key that needs escaping", "a/b%2F?#", "", "completed", done, done, done},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			body, err := json.Marshal(sagaRequest{FP: "a", Reject: tt.reject})
			require.NoError(t, err)
			started := blackboxtest.Post(t.Context(), w.saga(tt.key, string(body)))
			require.Equal(t, http.StatusAccepted, started.Status, started.Body)
			require.JSONEq(t, `{"saga":`+quoted(t, tt.key)+`}`, started.Body)

			want := sagaView{Saga: tt.key, Status: tt.status}
			view := untilOver(t, w.front, tt.key)
			for _, step := range []struct {
				hop, name string
				fate
			}{
				{"inventory", "inventory.reserve", tt.reserve},
				{"payment", "payment.charge", tt.charge},
				{"notification", "notification.receipt", tt.receipt},
			} {
				step.shown.Step = step.name
				want.Steps = append(want.Steps, step.shown)
				do, undo := w.ledgerOf(t, step.hop, tt.key)
				require.Equal(t, [2]int{step.do, step.undo}, [2]int{do, undo}, "done and undone at %s", step.hop)
			}
			require.Equal(t, want, view)
			again := blackboxtest.Post(t.Context(), w.saga(tt.key, string(body)))
			require.True(t, again.Replayed())
			require.Equal(t, started.Body, again.Body)
		})
	}
}

func quoted(t *testing.T, s string) string {
	t.Helper()
	b, err := json.Marshal(s)
	require.NoError(t, err)
	return string(b)
}

func TestSaga_badInput(t *testing.T) {
	t.Parallel()
	w := newDeployment(t)
	for _, tt := range []struct {
		name, key, body string
		status          int
	}{
		{"one dot", ".", `{"fp":"a"}`, http.StatusBadRequest},
		{"two dots", "..", `{"fp":"a"}`, http.StatusBadRequest},
		{"a slash", "/", `{"fp":"a"}`, http.StatusBadRequest},
		{"no such step", "b-1", `{"fp":"a","reject":"payment.refund"}`, http.StatusBadRequest},
		{"no JSON", "b-2", `{`, http.StatusBadRequest},
		{"no key", "", `{"fp":"a"}`, http.StatusBadRequest},
	} {
		a := blackboxtest.Post(t.Context(), w.saga(tt.key, tt.body))
		require.Equal(t, tt.status, a.Status, "%s: %s", tt.name, a.Body)
	}
	require.Equal(t, http.StatusAccepted, blackboxtest.Post(t.Context(), w.saga("b-3", `{"fp":"a"}`)).Status)
	require.Equal(t, http.StatusUnprocessableEntity, blackboxtest.Post(t.Context(), w.saga("b-3", `{"fp":"b"}`)).Status)
	require.Equal(t, http.StatusUnprocessableEntity, blackboxtest.Post(t.Context(), w.checkout("b-3")).Status)

	for _, tt := range []struct {
		name, tenant, key string
		status            int
	}{
		{"there", "t", "b-3", http.StatusOK},
		{"of another tenant", "u", "b-3", http.StatusNotFound},
		{"of nobody", "", "b-3", http.StatusUnauthorized},
		{"never begun", "t", "b-1", http.StatusNotFound},
		{"no key", "t", "b 4", http.StatusNotFound},
	} {
		status, _ := show(t, w.front, tt.tenant, tt.key)
		require.Equal(t, tt.status, status, tt.name)
	}
	untilOver(t, w.front, "b-3")
}

// Orchestrators are killed while they drive sagas, of which every fourth is refused at the end.
// The next process brings each to its end.
func TestSaga_orchestratorIsKilled(t *testing.T) {
	t.Parallel()
	w := newDeployment(t)
	keys := make(map[string]string)
	for hop := range operations {
		w.killAtWork(t, hop, func() {
			for n := range 4 {
				key, body := hop+"-"+string(rune('a'+n)), `{"fp":"a"}`
				keys[key] = "completed"
				if n == 0 {
					keys[key], body = "compensated", `{"fp":"a","reject":"notification.receipt"}`
				}
				go func(ctx context.Context) { blackboxtest.PostUntilFinal(ctx, w.saga(key, body)) }(t.Context())
			}
		})
	}
	for key, status := range keys {
		require.Equal(t, status, untilOver(t, w.front, key).Status, key)
		for service := range operations {
			do, undo := w.ledgerOf(t, service, key)
			switch status {
			case "completed":
				require.Equal(t, [2]int{1, 0}, [2]int{do, undo}, "%s at %s", key, service)
			default:
				require.Equal(t, do, undo, "%s at %s", key, service)
				require.LessOrEqual(t, do, 1)
			}
		}
	}
}

// Sagas are kept for longer than the guard remembers requests: the key is still that
// of the saga, and no retry changes that.
func TestSaga_keyReusedAfterTheGuardForgot(t *testing.T) {
	t.Parallel()
	w := newDeployment(t)
	started := blackboxtest.Post(t.Context(), w.saga("r-1", `{"fp":"a"}`))
	require.Equal(t, http.StatusAccepted, started.Status, started.Body)
	untilOver(t, w.front, "r-1")
	forget := func() {
		tag, err := w.databases["orchestrator"].Exec(t.Context(), "delete from idempotency")
		require.NoError(t, err)
		require.EqualValues(t, 1, tag.RowsAffected())
	}
	forget()
	other := blackboxtest.Post(t.Context(), w.saga("r-1", `{"fp":"b"}`))
	require.Equal(t, http.StatusUnprocessableEntity, other.Status, other.Body)
	problem, ok := wire.ParseProblem(other.Header.Get("Content-Type"), []byte(other.Body))
	require.True(t, ok, other.Body)
	require.Equal(t, wire.KeyReused, problem.Code)
	require.Empty(t, other.Header.Get("Retry-After"))

	forget()
	again := blackboxtest.Post(t.Context(), w.saga("r-1", `{"fp":"a"}`))
	require.Equal(t, http.StatusAccepted, again.Status, again.Body)
	require.Equal(t, started.Body, again.Body)
	for service := range operations {
		do, undo := w.ledgerOf(t, service, "r-1")
		require.Equal(t, [2]int{1, 0}, [2]int{do, undo}, service)
	}
}
