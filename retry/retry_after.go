package retry

import (
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
)

// retryAfter returns what the answer asks to wait: the problem's milliseconds,
// which are finer, else the header. 0: nothing that can be read.
func (x *exchange) retryAfter(a *answer) time.Duration {
	if a.problem != nil && a.problem.RetryAfter() > 0 {
		return a.problem.RetryAfter()
	}
	wait, _ := wire.RetryAfter(a.header, x.client.cfg.Now())
	return wait
}
