package graph

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/fanonce/fanonce/saga/journal"
)

// describe returns the plan's record. Timeouts and retentions are not in it: they may be tuned
// while sagas are running. The results of functions must not change.
func (p *Plan) describe() journal.PlanRecord {
	r := journal.PlanRecord{Name: p.Name, Version: p.Version}
	for _, s := range p.Steps {
		r.Lines = append(r.Lines, p.line(s))
	}
	r.Hash = hashOf(r)
	return r
}

// hashOf returns the hash of the record's other fields.
func hashOf(r journal.PlanRecord) (hash journal.PlanHash) {
	h := sha256.New()
	for _, part := range slices.Concat([]string{"saga-plan/v1", r.Name, fmt.Sprint(r.Version)}, r.Lines) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	h.Sum(hash[:0])
	return hash
}

// line describes a step:
//
//	NAME SHAPE[ pivot][ retriable][ read-only][ irreversible][ optional][ conditional][ each][ undo NAME SHAPE][ after NAME, NAME]
//
// A name has the discriminators in brackets, see [Address.Name]. Only a quoted one can have a comma
// or a bracket. A shape has no space but the one behind its method. That of a sleep or await is a word, which older builds do
// not know: they leave the saga to others. It has no undo, and no mark but conditional, and optional for an await. The last
// discriminator of an each is a star.
func (p *Plan) line(s *Step) string {
	var b strings.Builder
	b.WriteString(s.Name + " " + s.Address.Shape)
	for _, m := range s.Marks() {
		if *m.Is {
			b.WriteString(" " + m.Text)
		}
	}
	if s.Undo != nil {
		b.WriteString(" undo " + s.Undo.Name() + " " + s.Undo.Shape)
	}
	for i, before := range s.Before {
		b.WriteString([]string{" after ", ", "}[min(i, 1)] + p.Steps[before].Name)
	}
	return b.String()
}

// A mark is a word in a step's line, and the field that it stands for.
type mark struct {
	Text string
	Is   *bool
}

// Marks are those that a step can have, in the order of a line.
func (s *Step) Marks() []mark {
	return []mark{
		{"pivot", &s.IsPivot}, {"retriable", &s.Retriable}, {"read-only", &s.ReadOnly}, {"irreversible", &s.Irreversible},
		{"optional", &s.Optional}, {"conditional", &s.Conditional}, {"each", &s.IsEach},
	}
}

// ParsePlan returns the plan of a record, which is the opposite of describe. The plan has neither
// types nor functions nor times. Its UndoBudget and Timeout are [DefaultUndoBudget].
//
// The error is a [journal.ErrCorrupt] if the lines do not have the record's hash. It is a
// [journal.ErrNewer] if they have it and cannot be read.
func ParsePlan(r journal.PlanRecord) (*Plan, error) {
	if hashOf(r) != r.Hash {
		return nil, fmt.Errorf("%w: plan %s version %d: the lines do not have the hash %v", journal.ErrCorrupt, r.Name, r.Version, r.Hash)
	}
	p, err := parsePlan(r)
	if err == nil && p.describe().Hash != r.Hash {
		err = errors.New("the lines have another meaning")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: plan %s version %d: %w", journal.ErrNewer, r.Name, r.Version, err)
	}
	p.Record = r
	return p, nil
}

func parsePlan(r journal.PlanRecord) (*Plan, error) {
	p := &Plan{Name: r.Name, Version: r.Version, UndoBudget: DefaultUndoBudget, Timeout: DefaultUndoBudget}
	if n := len(r.Lines); n == 0 || n > MaxSteps {
		return nil, fmt.Errorf("%d steps, 1 to %d", n, MaxSteps)
	}
	after := make([][]string, len(r.Lines))
	for i, text := range r.Lines {
		s := &Step{Index: i}
		var err error
		if after[i], err = (&line{text}).parse(s); err != nil {
			return nil, fmt.Errorf("step %d: %w", i+1, err)
		}
		if p.Find(s.Name) != nil {
			return nil, fmt.Errorf("step %d: %s is there twice", i+1, s.Name)
		}
		if s.IsPivot {
			if p.Pivot != nil {
				return nil, fmt.Errorf("step %d: there are two pivots", i+1)
			}
			p.Pivot = s
		}
		p.Steps = append(p.Steps, s)
	}
	for i, names := range after {
		for _, name := range names {
			before := p.Find(name)
			if before == nil {
				return nil, fmt.Errorf("step %d waits for %s, which is no step", i+1, name)
			}
			p.Steps[i].After = append(p.Steps[i].After, before.Index)
		}
	}
	(&Draft{Plan: p}).link()
	if cycle := p.cycle(); cycle != nil {
		return nil, fmt.Errorf("%w: %s", ErrCycle, strings.Join(cycle, " after "))
	}
	p.descend()
	p.markSleeps(p.ancestors())
	return p, nil
}

// A line is what is left to read of a step's line.
type line struct{ rest string }

// parse reads the line into s, but for the steps that it waits for. It returns their names.
func (l *line) parse(s *Step) (after []string, err error) {
	if s.Address, err = l.address(); err != nil {
		return nil, err
	}
	s.Name = s.Address.Name()
	for _, m := range s.Marks() {
		can := !s.IsSleep() || m.Is == &s.Conditional || m.Is == &s.Optional && s.IsAwait()
		*m.Is = can && l.word(m.Text)
	}
	if s.IsEach && (s.IsPivot || !s.Address.isOfAll()) {
		return nil, fmt.Errorf("%s is an each, and is the pivot or without a star", s.Name)
	}
	if !s.IsSleep() && l.word("undo") {
		undo, err := l.skipSpace().address()
		if err != nil {
			return nil, fmt.Errorf("undo of %s: %w", s.Name, err)
		}
		if undo.MakesNoCall() {
			return nil, fmt.Errorf("undo of %s: %s makes no call", s.Name, undo.Name())
		}
		if s.IsEach && !undo.isOfAll() {
			return nil, fmt.Errorf("undo of %s: %s is without a star", s.Name, undo.Name())
		}
		s.Undo = &undo
	}
	if l.word("after") {
		for l.skipSpace(); ; {
			name, err := l.name()
			if err != nil {
				return nil, fmt.Errorf("%s waits: %w", s.Name, err)
			}
			after = append(after, name.Name())
			if !l.cut(", ") {
				break
			}
		}
	}
	if l.rest != "" {
		return nil, fmt.Errorf("%s has a part %.60q that this build does not know", s.Name, l.rest)
	}
	return after, nil
}

// skipSpace goes over the space before the next word.
func (l *line) skipSpace() *line {
	l.cut(" ")
	return l
}

// word goes over the next word if it is text.
func (l *line) word(text string) bool {
	rest, ok := strings.CutPrefix(l.rest, " "+text)
	if !ok || rest != "" && rest[0] != ' ' {
		return false
	}
	l.rest = rest
	return true
}

// cut goes over text if it is next.
func (l *line) cut(text string) (ok bool) {
	l.rest, ok = strings.CutPrefix(l.rest, text)
	return ok
}

var (
	nameSyntax  = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._/-]*?)\.([A-Za-z0-9][A-Za-z0-9._/-]*)`)
	shapeSyntax = regexp.MustCompile(`^ (function|sleep-until|sleep|await|[A-Z]+ /[^ ]*)`)
	plainSyntax = regexp.MustCompile(`^[^",\[\]]*`)
)

// address reads a name and its shape.
func (l *line) address() (Address, error) {
	a, err := l.name()
	if err != nil {
		return a, err
	}
	shape := shapeSyntax.FindStringSubmatch(l.rest)
	if shape == nil {
		return a, fmt.Errorf("%s is followed by %.60q", a.Name(), l.rest)
	}
	a.Shape = shape[1]
	l.cut(shape[0])
	return a, nil
}

// name reads the name of a step. The service ends at the first dot that can end it, which is a guess
// if the service has dots of its own.
func (l *line) name() (a Address, err error) {
	name := nameSyntax.FindStringSubmatch(l.rest)
	if name == nil {
		return a, fmt.Errorf("%.60q is no name of a step", l.rest)
	}
	a.Service, a.Operation = name[1], name[2]
	l.cut(name[0])
	for open := "["; l.cut(open); open = "," {
		d, err := l.discriminator()
		if err != nil {
			return a, err
		}
		a.Discriminators = append(a.Discriminators, d)
	}
	if a.Discriminators != nil && !l.cut("]") {
		return a, fmt.Errorf("no ] before %.60q", l.rest)
	}
	return a, nil
}

func (l *line) discriminator() (string, error) {
	if !strings.HasPrefix(l.rest, `"`) {
		plain := plainSyntax.FindString(l.rest)
		l.cut(plain)
		return plain, nil
	}
	quoted, err := strconv.QuotedPrefix(l.rest)
	if err != nil {
		return "", fmt.Errorf("%.60q: %w", l.rest, err)
	}
	l.cut(quoted)
	return strconv.Unquote(quoted)
}
