package sagatest

import (
	"fmt"
	"slices"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
)

// learnItems makes steps of the items that the saga in r has, and reports whether there are any that were not known. A
// saga whose Each needs the outputs of another may show more of them once the first ones have answers.
func (e *explorer) learnItems(r journal.Record) bool {
	infos, err := saga.RecordSteps(e.plan, r)
	if err != nil || len(infos) == len(e.steps) {
		return false
	}
	declared := make(map[string]saga.StepInfo, len(e.steps))
	for _, s := range e.steps {
		declared[s.Name] = s
	}
	for i, s := range infos {
		known, ok := declared[s.Name]
		if !ok {
			known = declared[s.Of]
		}
		s.Attempts, s.Timeout, s.ZeroOutput = known.Attempts, known.Timeout, known.ZeroOutput
		infos[i] = s
		if _, ok := e.answers[s.Name]; !ok {
			e.answers[s.Name] = e.answers[s.Of]
		}
	}
	e.steps = infos
	return true
}

// unknownAnswers are the mistakes of answers for steps that the saga does not have.
func (e *explorer) unknownAnswers() (mistakes []string) {
	for _, step := range e.answered {
		if !slices.ContainsFunc(e.steps, func(s saga.StepInfo) bool { return s.Name == step }) {
			mistakes = append(mistakes, fmt.Sprintf("Answer(%q): no such step", step))
		}
	}
	return mistakes
}

// checkNamed notes an item that is called before the journal has the names of the items.
func (m *monitor) checkNamed(step string, r journal.Record) {
	for _, s := range m.steps {
		if s.Name == step && s.Of != "" && !isPassed(r, s.Of) {
			m.note("%s begins, and the journal does not have the items of %s", step, s.Of)
		}
	}
}
