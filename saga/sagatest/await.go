package sagatest

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
)

// sentAfter is when the value of an Await is sent, where the scenario does not say otherwise. Engines have taken the saga
// by then, and most wait.
const sentAfter = 10 * time.Minute

// A sending says when the value of one Await is sent.
type sending uint8

const (
	sentInTime    sending = iota // after sentAfter, and a second time
	sentBefore                   // before the saga begins
	sentTooLate                  // just after its wait has ended
	sentAtTheEnd                 // just before its owner ends the wait
	sentOtherwise                // with another value before the second time
)

// ofAwait returns the scenarios of a step that awaits a signal.
func (e *explorer) ofAwait(s saga.StepInfo) []scenario {
	all := []scenario{
		{name: s.Name + " is sent before the saga begins", signal: s.Name, sending: sentBefore},
		{name: s.Name + " is sent twice with other values", signal: s.Name, sending: sentOtherwise},
	}
	if s.Timeout > 0 {
		all = append(all, scenario{name: s.Name + " is sent too late", signal: s.Name, sending: sentTooLate},
			scenario{name: s.Name + " is sent at the end of its time", signal: s.Name, sending: sentAtTheEnd})
	}
	return all
}

// A told is what the world knows of one signal.
type told struct {
	value   []byte
	at      time.Time // when Send returned nil first; zero: it did not
	tooLate bool
	ended   bool // the journal was told that the wait is over, and had no value
	atEnd   sending
	next    []byte // to be sent when its owner ends the wait
}

// signal returns what is known of the signal. m.mu is held.
func (m *monitor) signal(name string) *told {
	if m.told[name] == nil {
		m.told[name] = new(told)
	}
	return m.told[name]
}

// sendSignals sends, as another process would, the values of all Awaits. It returns when all are sent, or the scenario is over.
func (e *explorer) sendSignals(ctx context.Context, s scenario, watch *monitor, over <-chan struct{}) {
	for _, step := range e.steps {
		if !step.IsAwait() {
			continue
		}
		how, value := sentInTime, []byte(e.answers[step.Name])
		if step.Name == s.signal {
			how = s.sending
		}
		if how == sentBefore {
			watch.sendValue(ctx, step.Name, value)
			continue
		}
		if how == sentTooLate || how == sentAtTheEnd {
			watch.signal(step.Name).atEnd, watch.signal(step.Name).next = how, value
			continue
		}
		go func() {
			for _, v := range [][]byte{value, []byte(`"another value"`), value} {
				if how != sentOtherwise && !bytes.Equal(v, value) {
					continue
				}
				select {
				case <-time.After(sentAfter):
				case <-over:
					return
				}
				watch.sendValue(ctx, step.Name, v)
			}
		}()
	}
}

// sendAll sends the values of all Awaits now.
func (e *explorer) sendAll(ctx context.Context, watch *monitor) {
	for _, step := range e.steps {
		if step.IsAwait() {
			watch.sendValue(ctx, step.Name, []byte(e.answers[step.Name]))
		}
	}
}

// sendValue sends the value, and notes an answer that does not fit those before it.
func (m *monitor) sendValue(ctx context.Context, name string, value []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sendLocked(ctx, name, value)
}

func (m *monitor) sendLocked(ctx context.Context, name string, value []byte) {
	was, _ := m.Read(ctx, m.id)
	err := m.Journal.Send(ctx, journal.Signal{ID: m.id, Name: name, Value: value}, journal.Audit{})
	t := m.signal(name)
	switch {
	case err == nil && t.tooLate:
		m.note("Send of %s returned nil after it had been too late", name)
	case err == nil && t.ended && t.at.IsZero():
		m.note("Send of %s returned nil after its wait had ended", name)
	case err == nil && t.at.IsZero() && was.Status.Final():
		m.note("Send of %s returned nil when the saga was over", name)
	case err == nil && t.at.IsZero():
		t.value, t.at = value, time.Now()
	case err == nil && !bytes.Equal(value, t.value):
		m.note("Send of %s returned nil for another value", name)
	case errors.Is(err, journal.ErrTooLate) && !t.at.IsZero():
		m.note("Send of %s was too late after it had returned nil", name)
	case errors.Is(err, journal.ErrTooLate):
		t.tooLate = true
	}
}

// EndWait implements [journal.Journal].
func (m *monitor) EndWait(ctx context.Context, o journal.Owner, name string) (journal.Signal, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.signal(name)
	if t.next != nil && t.atEnd == sentAtTheEnd {
		m.sendLocked(ctx, name, t.next)
	}
	stored, err := m.Journal.EndWait(ctx, o, name)
	if err == nil && stored.Value == nil {
		t.ended = true
		if !t.at.IsZero() {
			m.note("the wait for %s ended without a value, and Send had returned nil", name)
		}
		if first, known := m.sleepEnds[name]; known && time.Now().Before(first.Add(-m.slackOfSleeps())) {
			m.note("the wait for %s ended %v before its time", name, time.Until(first))
		}
	}
	if t.next != nil && t.atEnd == sentTooLate {
		m.sendLocked(ctx, name, t.next)
	}
	return stored, err
}

// checkAwaits notes what a write says of the saga's signals, and should not: that a value came which was not sent, or long
// after it was, or that none came although one was sent in time.
func (m *monitor) checkAwaits(was journal.Record, w journal.Write) {
	for _, e := range w.Entries {
		s, ok := m.step(e.Step)
		if !ok || !s.IsAwait() || e.Pending {
			continue
		}
		t := m.signal(e.Step)
		switch {
		case e.Outcome == retry.Completed && t.at.IsZero():
			m.note("%s completed, and Send did not return nil", e.Step)
		case e.Outcome == retry.Completed && !bytes.Equal(e.Result, t.value):
			m.note("%s completed with %s, and was sent %s", e.Step, e.Result, t.value)
		case e.Outcome == retry.Completed && !m.retried && time.Since(t.at) > atOnce && time.Since(m.begunWait(s, was)) > atOnce:
			m.note("%s completed %v after it was sent", e.Step, time.Since(t.at))
		case e.Outcome == retry.NotSent && (e.Skipped || w.Cause != nil && w.Cause.Step == e.Step) && !t.ended:
			m.note("%s failed, and the journal was not told that its wait is over", e.Step)
		}
	}
}

// step returns the step of that name.
func (m *monitor) step(name string) (saga.StepInfo, bool) {
	for _, s := range m.steps {
		if s.Name == name {
			return s, true
		}
	}
	return saga.StepInfo{}, false
}

// begunWait returns when the steps before s had ended, by this process's clock.
func (m *monitor) begunWait(s saga.StepInfo, r journal.Record) time.Time {
	begun := r.FirstClaimedAt
	for _, e := range r.Entries {
		for _, before := range s.After {
			if e.Step == before && !e.Undo && e.At.After(begun) {
				begun = e.At
			}
		}
	}
	return time.Now().Add(begun.Sub(r.Now))
}
