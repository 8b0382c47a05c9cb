package adaptertest

import (
	"errors"
	"strings"
	"sync"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/store"
)

// A rule is one duty of an adapter.
type rule struct {
	name  string
	holds func(c *check)
}

var rules = []rule{
	{"a repetition is a replay", func(c *check) {
		c.want(c.send("k", "tea"), OK, 1, false)
		c.want(c.send("k", "tea"), OK, 1, true)
		c.wantEffects(1, 1)
	}},
	{"a refusal is replayed, and takes no effect", func(c *check) {
		c.script = []step{{err: ErrRefused}}
		c.want(c.send("k", "tea"), Refused, 1, false)
		got := c.send("k", "tea")
		c.want(got, Refused, 1, true)
		if got.Retry {
			c.Error("the refusal advises to send the call again")
		}
		c.wantEffects(1)
	}},
	{"another input is refused", func(c *check) {
		c.want(c.send("k", "tea"), OK, 1, false)
		if got := c.send("k", "coffee"); got.Outcome != string(wire.KeyReused) {
			c.Errorf("outcome = %q, want %q", got.Outcome, wire.KeyReused)
		}
		c.wantEffects(1, 1)
	}},
	{"a failure is not stored", func(c *check) {
		c.script = []step{{err: errService}}
		got := c.send("k", "tea")
		c.want(got, Failed, 1, false)
		if !got.Retry {
			c.Error("the failure does not advise to send the call again")
		}
		c.want(c.send("k", "tea"), OK, 2, false)
		c.wantEffects(2, 2)
	}},
	{"a panic is not stored", func(c *check) {
		c.script = []step{{panics: true}}
		_, _ = c.call(c.Context(), "k", "tea") // an error or an answer, as the framework has it
		c.want(c.send("k", "tea"), OK, 2, false)
		c.wantEffects(2, 2)
	}},
	{"a conflict runs the handler again", conflict(step{failure: store.ErrConflict})},
	{"a conflict that the handler reports runs it again", conflict(step{failure: store.ErrConflict, err: errService})},
	{"a conflict under a refusal runs the handler again", conflict(step{failure: store.ErrConflict, err: ErrRefused})},
	{"a lost transaction runs the handler again", conflict(step{failure: store.ErrTxLost, err: errService})},
	{"two conflicts run the handler a third time", conflict(step{failure: store.ErrConflict}, step{failure: store.ErrConflict})},
	{"a conflict at the commit runs the handler again", func(c *check) {
		c.store.refuse.Store(1)
		c.want(c.send("k", "tea"), OK, 2, false)
		c.want(c.send("k", "tea"), OK, 2, true)
		c.wantEffects(2, 2)
	}},
	{"a refusal after a conflict is stored", func(c *check) {
		c.script = []step{{failure: store.ErrConflict}, {err: ErrRefused}}
		c.want(c.send("k", "tea"), Refused, 2, false)
		c.want(c.send("k", "tea"), Refused, 2, true)
		c.wantEffects(2)
	}},
	{"too many conflicts take no effect", func(c *check) {
		c.store.refuse.Store(3)
		got := c.send("k", "tea")
		if got.Outcome != string(wire.StoreUnavailable) || !got.Retry || len(got.Notes) > 0 {
			c.Errorf("answer = %+v, want %s, which a retry can help, and no header of a run", got, wire.StoreUnavailable)
		}
		c.wantEffects(3)
		c.want(c.send("k", "tea"), OK, 4, false)
		c.wantEffects(4, 4)
	}},
	{"each run gets the whole input", func(c *check) {
		input := strings.Repeat("tea ", 16<<10)
		c.script = []step{{failure: store.ErrConflict}}
		c.want(c.send("k", input), OK, 2, false)
		for i, got := range c.inputs {
			if got != input {
				c.Errorf("run %d got %d bytes, want all %d", i+1, len(got), len(input))
			}
		}
	}},
	{"concurrent calls take effect once", func(c *check) {
		c.script = []step{{failure: store.ErrConflict}}
		var calls sync.WaitGroup
		for range 8 {
			calls.Go(func() {
				a, err := c.call(c.Context(), "k", "tea")
				if err != nil || a.Outcome != OK || a.Text != "run 2" {
					c.Errorf("answer = %+v, %v, want that of run 2", a, err)
				}
			})
		}
		calls.Wait()
		c.wantEffects(2, 2)
	}},
}

var errService = errors.New("adaptertest: the service fails")

// conflict is the rule for runs that are rolled back: the run after them takes effect, and is the answer.
func conflict(rolledBack ...step) func(*check) {
	return func(c *check) {
		c.script = rolledBack
		last := len(rolledBack) + 1
		c.want(c.send("k", "tea"), OK, last, false)
		c.want(c.send("k", "tea"), OK, last, true)
		c.wantEffects(last, last)
	}
}
