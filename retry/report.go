package retry

import "time"

// observeAttempt tells the observer how the attempt ended; a is nil if it has
// no complete answer.
func (r *run) observeAttempt(v Verdict, deliveries int, wait time.Duration, a *answer, err error) {
	if r.client.observer == nil {
		return
	}
	e := AttemptEvent{
		Service: r.task.Service, Operation: r.task.Operation, Key: r.task.Key,
		Attempt: r.attempt.Number, Deliveries: deliveries, Outcome: v.Outcome, Action: v.Action,
		Elapsed: time.Since(r.begun), Wait: wait, Err: err,
	}
	if a != nil {
		e.Status, e.Code = a.status, a.code
	}
	r.client.observer.AttemptEnded(r.attempting, e)
}

// observeCall tells the observer how the call ended; a is its last complete
// answer, nil if there is none, and failed its error, nil if there is none.
func (r *run) observeCall(a *answer, failed *Error) {
	if r.client.observer == nil {
		return
	}
	e := CallEvent{
		Service: r.task.Service, Operation: r.task.Operation, Key: r.task.Key,
		Attempts: r.attempts, Outcome: Completed, Elapsed: time.Since(r.start),
	}
	if failed != nil {
		e.Outcome, e.Err = failed.Outcome, failed
	}
	if a != nil {
		e.Status, e.Code, e.Replayed = a.status, a.code, a.replayed
	}
	r.client.observer.CallEnded(r.caller, e)
}
