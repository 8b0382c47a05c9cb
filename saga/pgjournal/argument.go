package pgjournal

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fanonce/fanonce/saga/journal"
)

// Lengths of time are added to the server's clock, whose years end in 294276.
const longest = 200 * 365 * 24 * time.Hour

func checkStart(req journal.StartRequest) error {
	switch {
	case req.Key.IsZero():
		return fmt.Errorf("%w: Key is zero", ErrArgument)
	case req.ID != journal.IDOf(req.Scope, req.Name, req.Key):
		return fmt.Errorf("%w: ID is not that of Scope, Name and Key", ErrArgument)
	case req.Version < 0 || req.Version > math.MaxInt32:
		return fmt.Errorf("%w: Version %d", ErrArgument, req.Version)
	}
	if len(req.Trace) > journal.MaxTraceBytes || !isVisible(req.Trace) {
		return fmt.Errorf("%w: Trace of %d bytes: at most %d visible ASCII characters", ErrArgument, len(req.Trace), journal.MaxTraceBytes)
	}
	if err := checkText("Scope", req.Scope); err != nil {
		return err
	}
	return checkText("Name", req.Name)
}

func checkWrite(w journal.Write) error {
	if w.Status > journal.Abandoned {
		return fmt.Errorf("%w: Status %d", ErrArgument, w.Status)
	}
	if w.Defer != nil && !reflect.DeepEqual(w, journal.Write{Revision: w.Revision, Defer: w.Defer}) {
		return fmt.Errorf("%w: Defer beside another field", ErrArgument)
	}
	if !w.WakeAt.IsZero() && w.Status.Final() {
		return fmt.Errorf("%w: WakeAt with Status %v", ErrArgument, w.Status)
	}
	if err := checkTime("WakeAt", w.WakeAt); err != nil {
		return err
	}
	if err := checkTime("DeadlineAt", w.DeadlineAt); err != nil {
		return err
	}
	return checkLength("Keep", w.Keep)
}

func checkChange(c journal.Change) error {
	switch {
	case c.Wake && (c.Status != 0 || c.Cancel || c.Deadline != 0 || c.Keep != 0):
		return fmt.Errorf("%w: Wake with more than Entries", ErrArgument)
	case c.Plan != journal.PlanHash{} && (c.Wake || len(c.Entries) > 0 || c.Status != 0 || c.Cancel || c.Deadline != 0 || c.Keep != 0):
		return fmt.Errorf("%w: Plan with another field", ErrArgument)
	case c.Version < 0 || c.Version > math.MaxInt32:
		return fmt.Errorf("%w: Version %d", ErrArgument, c.Version)
	case !c.Wake && c.Plan == journal.PlanHash{} && (c.Status < journal.Running || c.Status > journal.Abandoned):
		return fmt.Errorf("%w: Status %d", ErrArgument, c.Status)
	}
	if err := checkAudit(c.By); err != nil {
		return err
	}
	if err := checkLength("Deadline", c.Deadline); err != nil {
		return err
	}
	return checkLength("Keep", c.Keep)
}

func checkAudit(by journal.Audit) error {
	for _, f := range []struct{ name, text string }{
		{"Verb", string(by.Verb)}, {"Step", by.Step}, {"Actor", by.Actor}, {"Reason", by.Reason},
	} {
		if err := checkText(f.name, f.text); err != nil {
			return err
		}
	}
	return nil
}

func checkPlan(name string, version int) error {
	if version < 0 || version > math.MaxInt32 {
		return fmt.Errorf("%w: Version %d", ErrArgument, version)
	}
	return checkText("Name", name)
}

func checkLimit(limit int) error {
	if limit <= 0 {
		return fmt.Errorf("%w: limit %d is not positive", ErrArgument, limit)
	}
	return nil
}

func checkLength(name string, d time.Duration) error {
	if d < 0 || d > longest {
		return fmt.Errorf("%w: %s %v", ErrArgument, name, d)
	}
	return nil
}

// checkText refuses what a column of text cannot hold. It does not say what that
// is: it may be a secret.
func checkText(name, text string) error {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return fmt.Errorf("%w: %s is not UTF-8 without NUL", ErrArgument, name)
	}
	return nil
}

func checkTime(name string, t time.Time) error {
	if y := t.Year(); !t.IsZero() && (y < 1 || y > 9999) {
		return fmt.Errorf("%w: %s in the year %d", ErrArgument, name, y)
	}
	return nil
}
