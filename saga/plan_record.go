package saga

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// A PlanHash is the digest of a plan: of the saga's name and version, and of
// its steps' names, kinds, operations and edges. A saga that was started with
// one plan is driven with no other.
type PlanHash [32]byte

// String returns its first 8 bytes in hex.
func (h PlanHash) String() string { return hex.EncodeToString(h[:8]) }

// A PlanRecord is a plan as a journal keeps it.
type PlanRecord struct {
	Name    string
	Version int
	Hash    PlanHash
	Lines   []string // what the hash is of, for people: one line per step
}

// describe returns the plan's record. Timeouts and retentions are not in it:
// they may be tuned while sagas are under way. What functions compute cannot be.
func (p *plan) describe() PlanRecord {
	r := PlanRecord{Name: p.name, Version: p.version}
	if p.edges {
		// Under it a step that the journal does not know may have run.
		r.Lines = append(r.Lines, "checkpoint edges")
	}
	for _, s := range p.steps {
		r.Lines = append(r.Lines, p.line(s))
	}
	h := sha256.New()
	for _, part := range slices.Concat([]string{"saga-plan/v1", p.name, fmt.Sprint(p.version)}, r.Lines) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	h.Sum(r.Hash[:0])
	return r
}

func (p *plan) line(s *step) string {
	var b strings.Builder
	b.WriteString(s.name + " " + s.address.shape)
	for _, mark := range []struct {
		is   bool
		text string
	}{
		{s.isPivot, " pivot"}, {s.retriable, " retriable"}, {s.readOnly, " read-only"}, {s.irreversible, " irreversible"},
	} {
		if mark.is {
			b.WriteString(mark.text)
		}
	}
	if s.undo != nil {
		b.WriteString(" undo " + s.undo.name() + " " + s.undo.shape)
	}
	for i, before := range s.before {
		b.WriteString([]string{" after ", ", "}[min(i, 1)] + p.steps[before].name)
	}
	return b.String()
}

// A PlanChangedError is returned by [Open] for a definition that the journal
// knows otherwise under the same version. Give it a new one: sagas of both run
// side by side.
type PlanChangedError struct {
	Name    string
	Version int
	Added   []string // lines of a [PlanRecord] that are new
	Removed []string // lines that are gone
	// Order and OldOrder are the lines that both plans have, in the definition's
	// order and in the journal's; nil if that is the same. Steps are told apart
	// by their places too.
	Order, OldOrder []string
}

// Error lists the lines that differ, and all in the journal's order if that does.
func (e *PlanChangedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "saga: plan %s version %d is another one in the journal; give it a new version:", e.Name, e.Version)
	for _, line := range e.Removed {
		b.WriteString("\n\t- " + line)
	}
	for _, line := range e.Added {
		b.WriteString("\n\t+ " + line)
	}
	if len(e.OldOrder) > 0 {
		b.WriteString("\n\tthe order of the steps is another one; the journal's is:")
	}
	for i, line := range e.OldOrder {
		fmt.Fprintf(&b, "\n\t%d %s", i+1, line)
	}
	return b.String()
}

// Is matches [ErrPlanChanged].
func (e *PlanChangedError) Is(target error) bool { return target == ErrPlanChanged }

// changed returns how plan differs from what the journal has.
func changed(plan, stored PlanRecord) *PlanChangedError {
	e := &PlanChangedError{Name: plan.Name, Version: plan.Version}
	var now, old []string // what both have
	now, e.Added = parted(plan.Lines, stored.Lines)
	old, e.Removed = parted(stored.Lines, plan.Lines)
	if !slices.Equal(now, old) {
		e.Order, e.OldOrder = now, old
	}
	return e
}

// parted returns which of lines are among others, and which are not.
func parted(lines, others []string) (shared, own []string) {
	for _, line := range lines {
		if slices.Contains(others, line) {
			shared = append(shared, line)
		} else {
			own = append(own, line)
		}
	}
	return shared, own
}
