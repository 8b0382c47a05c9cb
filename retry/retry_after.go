package retry

import (
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
)

// retryAfter returns what the answer asks to wait: the problem's milliseconds,
// which are finer, else the header. 0: nothing that can be read.
func (x *exchange) retryAfter(a *answer) time.Duration {
	if wait := a.problem.RetryAfter(); wait > 0 {
		return wait
	}
	wait, _ := wire.RetryAfter(a.header, x.cfg.Now())
	return wait
}
