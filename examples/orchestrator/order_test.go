package main

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/internal/blackboxtest"
)

func (d *deployment) order(key, body string) blackboxtest.Request {
	return blackboxtest.Request{URL: d.front.URL + "/v1/orders", Tenant: "t", Key: key, Body: body}
}

func (d *deployment) decision(key, idempotencyKey, body string) blackboxtest.Request {
	return blackboxtest.Request{URL: d.front.URL + "/v1/orders/" + url.PathEscape(key) + "/decision", Tenant: "t", Key: idempotencyKey, Body: body}
}

// untilOrder waits until the order is as it should be.
func (d *deployment) untilOrder(t *testing.T, key string, ok func(orderView) bool) (view orderView) {
	t.Helper()
	require.Eventually(t, func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.front.URL+"/v1/orders/"+url.PathEscape(key), nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer t")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		view = orderView{}
		return err == nil && resp.StatusCode == http.StatusOK && json.Unmarshal(body, &view) == nil && ok(view)
	}, 2*time.Minute, 10*time.Millisecond, "order %s: %v", key, &view)
	return view
}

// has returns an ok for [deployment.untilOrder]: the order has that status.
func has(status string) func(orderView) bool {
	return func(v orderView) bool { return v.Status == status }
}

// everythingOf returns what the hops and the orchestrator did for an order, in order: "do", "do undo", "capture".
func (d *deployment) everythingOf(t *testing.T, key string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, hop := range []string{"inventory", "payment", "notification"} {
		rows, err := d.databases[hop].Query(t.Context(), `select fp, string_agg(kind, ' ' order by seq) from effects
			where saga = $1 and tenant = 't' group by fp`, key)
		require.NoError(t, err)
		for rows.Next() {
			var fp, kinds string
			require.NoError(t, rows.Scan(&fp, &kinds))
			all[fp] = kinds
		}
		require.NoError(t, rows.Err())
	}
	var paid int
	require.NoError(t, d.databases["orchestrator"].QueryRow(t.Context(), "select count(*) from paid_orders where tenant = 't' and saga = $1", key).Scan(&paid))
	if paid > 0 {
		all["paid"] = strings.Repeat("row", paid)
	}
	return all
}

// An order says what people mean: lines, a gift card if there is one, a person above a limit, time to change one's mind.
func TestOrder(t *testing.T) {
	t.Parallel()
	w := newDeployment(t)
	completed := map[string]string{
		"tea": "do", "milk": "do", "payment.authorize": "do", "payment.capture": "capture", "notification.receipt": "do", "paid": "row",
	}
	with := func(of map[string]string, more map[string]string) map[string]string {
		all := maps.Clone(of)
		maps.Copy(all, more)
		return all
	}
	const yes, no = `{"approved":true,"by":"ann"}`, `{"approved":false,"by":"ann"}`
	for _, tt := range []struct {
		name, key, more, decision, status string
		effects                           map[string]string
	}{
		{"completes", "o-1", `"total":10`, "", "completed", completed},
		{"has a gift card", "o-2", `"total":10,"gift_card":"g"`, "", "completed", with(completed, map[string]string{"payment.redeem": "do"})},
		{"is approved", "o-3", `"total":5000`, yes, "completed", completed},
		{"is declined", "o-4", `"total":5000,"gift_card":"g"`, no, "compensated", map[string]string{
			"tea": "do undo", "milk": "do undo", "payment.redeem": "do undo", "payment.authorize": "do undo",
		}},
		{"has a key that needs escaping", "o/5%2F?#", `"total":5000`, yes, "completed", completed},
		{"is refused at its capture", "o-6", `"total":10,"gift_card":"g","reject":"payment.capture"`, "", "compensated", map[string]string{
			"tea": "do undo", "milk": "do undo", "payment.redeem": "do undo", "payment.authorize": "do undo",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			body := `{"lines":[{"sku":"tea"},{"sku":"milk"}],"cool_off_ms":50,` + tt.more + `}`
			started := blackboxtest.Post(t.Context(), w.order(tt.key, body))
			require.Equal(t, http.StatusAccepted, started.Status, started.Body)
			if tt.decision != "" {
				w.untilOrder(t, tt.key, func(v orderView) bool { return v.Steps["orders.approval"] == "running" })
				a := blackboxtest.Post(t.Context(), w.decision(tt.key, "d-"+tt.key[:1]+tt.key[2:3], tt.decision))
				require.Equal(t, http.StatusOK, a.Status, a.Body)
			}
			view := w.untilOrder(t, tt.key, has(tt.status))
			require.Equal(t, tt.effects, w.everythingOf(t, tt.key), "%v", view)
		})
	}
}

// A line that is refused leaves nothing of the others. They run beside it, so some may not have begun.
func TestOrder_lineRefused(t *testing.T) {
	t.Parallel()
	w := newDeployment(t)
	body := `{"lines":[{"sku":"tea"},{"sku":"milk"},{"sku":"rum"}],"total":10,"cool_off_ms":0,"reject":"inventory.hold[rum]"}`
	require.Equal(t, http.StatusAccepted, blackboxtest.Post(t.Context(), w.order("k", body)).Status)
	view := w.untilOrder(t, "k", has("compensated"))
	require.Equal(t, "failed", view.Steps["inventory.hold[rum]"], "%v", view)
	for what, kinds := range w.everythingOf(t, "k") {
		require.Equal(t, "do undo", kinds, what)
	}
}

// A decision may be there before its order. Only the first one counts, and none does once the order is over.
func TestOrder_decisions(t *testing.T) {
	t.Parallel()
	w := newDeployment(t)
	const body = `{"lines":[{"sku":"tea"}],"total":5000,"cool_off_ms":0}`
	const yes, no = `{"approved":true,"by":"ann"}`, `{"approved":false,"by":"bob"}`
	status := func(req blackboxtest.Request) int { return blackboxtest.Post(t.Context(), req).Status }
	require.Equal(t, http.StatusOK, status(w.decision("early", "d-1", yes)))
	require.Equal(t, http.StatusOK, status(w.decision("early", "d-2", yes)), "the same again")
	require.Equal(t, http.StatusConflict, status(w.decision("early", "d-3", no)), "another person's")
	require.Equal(t, http.StatusAccepted, status(w.order("early", body)))
	w.untilOrder(t, "early", has("completed"))

	refused := strings.Replace(body, `"total"`, `"reject":"inventory.hold[tea]","total"`, 1)
	require.Equal(t, http.StatusAccepted, status(w.order("over", refused)))
	w.untilOrder(t, "over", has("compensated"))
	require.Equal(t, http.StatusConflict, status(w.decision("over", "d-4", yes)), "too late")
	require.Equal(t, http.StatusBadRequest, status(w.order("empty", `{"lines":[],"total":1}`)))
	require.Equal(t, http.StatusBadRequest, status(w.order("past", strings.Replace(body, `"cool_off_ms":0`, `"cool_off_ms":-1`, 1))))
}

// The orchestrator is killed while each hop works for orders, and while they wait for a person and for time. Every fourth order
// is declined. None has an effect twice, and nothing is left of those that were declined.
func TestOrder_orchestratorIsKilled(t *testing.T) {
	t.Parallel()
	w := newDeployment(t)
	orders := make(map[string]bool) // by key: whether it is approved
	const body = `{"lines":[{"sku":"tea"},{"sku":"milk"}],"gift_card":"g","total":5000,"cool_off_ms":300}`
	begin := func(stage string) func() {
		return func() {
			for n := range 4 {
				key := stage + "-" + string(rune('a'+n))
				orders[key] = n > 0
				go func(ctx context.Context) {
					blackboxtest.PostUntilFinal(ctx, w.order(key, body))
				}(t.Context())
			}
		}
	}
	decide := func() {
		for key, approved := range orders {
			verdict, err := json.Marshal(decision{Approved: approved, By: "ann"})
			require.NoError(t, err)
			a := blackboxtest.PostUntilFinal(t.Context(), w.decision(key, "decision-"+key, string(verdict)))
			require.Equal(t, http.StatusOK, a.Status, a.Body)
		}
	}
	w.killAtWork(t, "inventory", begin("held"))
	w.killAtWork(t, "payment", begin("authorized"))
	begin("waiting")()
	for key := range orders {
		w.untilOrder(t, key, func(v orderView) bool { return v.Steps["orders.approval"] == "running" })
	}
	w.front.Kill()
	w.front.Restart()
	w.front.AwaitReady()
	w.killAtWork(t, "notification", decide) // some sleep, some are over
	for key, approved := range orders {
		want := map[string]string{
			"tea": "do", "milk": "do", "payment.redeem": "do", "payment.authorize": "do",
			"payment.capture": "capture", "notification.receipt": "do", "paid": "row",
		}
		status := "completed"
		if !approved {
			status, want = "compensated", map[string]string{
				"tea": "do undo", "milk": "do undo", "payment.redeem": "do undo", "payment.authorize": "do undo",
			}
		}
		w.untilOrder(t, key, has(status))
		require.Equal(t, want, w.everythingOf(t, key), key)
	}
}
