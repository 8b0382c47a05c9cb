package retry_test

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
)

func TestSend_budgetExhausted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := script(status(503))
		budget := &retry.Budget{Reserve: 4, Refill: 0.01}
		c := newClient(t, retry.Config{Transport: rt, Rand: exact, MaxAttempts: 4, Budget: budget})
		failure(t, c, post(stubURL)) // takes three
		failed := failure(t, c, post(stubURL))
		require.Equal(t, 2, failed.Attempts)
		require.ErrorIs(t, failed, retry.ErrBudgetExhausted)
		require.ErrorContains(t, failed, "this client's retry budget")
		require.ErrorContains(t, failed, "status 503", "the last real error stays visible")
		require.True(t, failed.Retryable)

		other := post(stubURL) // another service has a budget of its own
		other.Service = "inventory"
		require.Equal(t, 4, failure(t, c, other).Attempts)

		time.Sleep(100 * time.Second) // time gives back, though nothing succeeded
		require.Equal(t, 2, failure(t, c, post(stubURL)).Attempts)
	})
}

// In an outage each call still gets its first attempt, and few retries. Retries add at most a
// fifth to the load of the service.
func TestSend_outageIsNotAmplified(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := script(status(503))
		c := newClient(t, retry.Config{Transport: rt, Rand: exact, MaxAttempts: 4})
		const calls = 1200 // in a minute
		var wg sync.WaitGroup
		for range calls {
			wg.Go(func() { failure(t, c, post(stubURL)) })
			time.Sleep(time.Minute / calls)
		}
		wg.Wait()
		require.LessOrEqual(t, rt.count(), calls*11/10+1)
		require.GreaterOrEqual(t, rt.count(), calls)

		rt.steps = []step{status(200)}
		for range 100 {
			_, err := c.Send(t.Context(), post(stubURL))
			require.NoError(t, err)
		}
		rt.steps = []step{status(503)}
		require.Equal(t, 4, failure(t, c, post(stubURL)).Attempts, "successes refill")
	})
}

// Ordinary random failures must not starve the budget.
func TestSend_tenPercentFailuresSucceed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		sent := 0
		rt := roundTrip(func(req *http.Request) (*http.Response, error) {
			if sent++; random.Float64() < 0.1 {
				return status(503)(req)
			}
			return status(200)(req)
		})
		budget := &retry.Budget{Refill: 1e-9} // successes alone have to pay
		c := newClient(t, retry.Config{Transport: rt, Rand: exact, Budget: budget})
		const calls = 50_000 // many times what the reserve would cover
		ok := 0
		for range calls {
			if _, err := c.Send(t.Context(), post(stubURL)); err == nil {
				ok++
			}
		}
		require.GreaterOrEqual(t, ok, calls*999/1000, "nearly all: for each one in 10,000 fails four times")
		require.LessOrEqual(t, sent, calls*112/100)
	})
}

func TestBudget_isSharedAndBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		budget := &retry.Budget{Reserve: 10, Refill: 1e-9}
		require.InDelta(t, 10, budget.Left("a"), 0)
		time.Sleep(time.Hour)
		require.InDelta(t, 10, budget.Left("a"), 0, "no more than the reserve")

		cfg := over(script(status(503)))
		cfg.Budget = budget
		first, second := newClient(t, cfg), newClient(t, cfg)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				call := post(stubURL)
				call.Service = "a"
				failure(t, first, call)
				failure(t, second, call)
			})
		}
		wg.Wait()
		require.InDelta(t, 0, budget.Left("a"), 1e-6)
	})
}

func TestNew_rejectsBudgets(t *testing.T) {
	t.Parallel()
	nan := nan()
	for _, budget := range []*retry.Budget{
		{Ratio: -0.1}, {Ratio: 1.1}, {Ratio: nan}, {Reserve: -1}, {Reserve: 0.5}, {Reserve: nan}, {Refill: -1}, {Refill: nan},
	} {
		_, err := retry.New(retry.Config{Budget: budget})
		require.ErrorIs(t, err, retry.ErrConfig)
	}
}

// The zero Budget has the defaults, from the first thing that is asked of it.
func TestBudget_zero(t *testing.T) {
	t.Parallel()
	require.InDelta(t, 100, new(retry.Budget).Left("payment"), 0)
	cfg := over(script(status(503)))
	cfg.Budget = new(retry.Budget)
	c := newClient(t, cfg)
	require.Equal(t, cfg.MaxAttempts, failure(t, c, post(stubURL)).Attempts)
	require.InDelta(t, 100-3, cfg.Budget.Left("payment"), 1)

	cfg = over(script(status(200)))
	cfg.Budget = new(retry.Budget)
	_, err := newClient(t, cfg).Send(t.Context(), post(stubURL))
	require.NoError(t, err)
	require.InDelta(t, 100, cfg.Budget.Left("payment"), 0)
}
