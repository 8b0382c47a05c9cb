package console

import "github.com/fanonce/fanonce/server/store"

// A verb is one kind of change, in the words of the page.
type verb struct {
	Name        string // Forms send it.
	Label       string // Buttons show it.
	Consequence string // The confirmation says what follows for each key or saga.
	Harm        bool   // It can repeat an effect or leave one behind.
	// The verb needs these values of the person.
	Answer, Step, Output bool
}

// A verbChoice is a verb that a page offers.
type verbChoice = verb

// The verbs for keys.
var (
	verbRunAgain = verb{
		Name: "run-again", Label: "Run again (release)", Harm: true,
		Consequence: "The next call with the key runs, whatever happened before. If the effect has happened and the handler does not find it, it happens twice.",
	}
	verbNeverHappened = verb{
		Name: "never-happened", Label: "It never happened", Harm: true,
		Consequence: "You state that no run had an effect. The next call with the key runs, and an undo is told that there is nothing to undo.",
	}
	verbAbandon = verb{
		Name: "abandon", Label: "Abandon (cancel)", Harm: true,
		Consequence: "The key never runs again, although its effect may have happened. Its callers get key-cancelled.",
	}
	verbHappened = verb{
		Name: "happened", Label: "It happened", Answer: true,
		Consequence: "You state that the effect happened once. Every retry gets the answer that you give here.",
	}
	verbForget = verb{
		Name: "forget", Label: "Forget", Harm: true,
		Consequence: "The record and its answer are deleted. The next call with the key runs, also if its effect has happened.",
	}
	verbForgetLetter = verb{
		Name: "forget", Label: "Run again (forget the dead letter)", Harm: true,
		Consequence: "The record of the dead letter is deleted. If the broker delivers the message again, its handler runs again.",
	}
)

// keyVerbs are the verbs for keys, by their names.
var keyVerbs = byName(verbRunAgain, verbNeverHappened, verbAbandon, verbHappened, verbForget)

func byName(verbs ...verb) map[string]verb {
	m := make(map[string]verb, len(verbs))
	for _, v := range verbs {
		m[v.Name] = v
	}
	return m
}

// needsDecision reports whether a person decides what became of the key.
func needsDecision(k *keyRow) bool {
	return k.State == store.StateUnknown || k.State == store.StateQuarantined || k.Dead()
}

// keyListVerbs are the verbs that fit the keys of a list.
func keyListVerbs(state string) []verbChoice {
	switch state {
	case stateAttention, stateUnknown, stateQuarantined, store.StateInProgress.String():
		return []verbChoice{verbRunAgain, verbNeverHappened, verbAbandon, verbForget}
	case stateDeadLetter:
		return []verbChoice{verbForgetLetter}
	default:
		return []verbChoice{verbForget}
	}
}

// keyVerbsFor are the verbs that fit one key. answers: the guard can store an answer that a person gives.
func keyVerbsFor(k *keyRow, answers bool) []verbChoice {
	switch {
	case needsDecision(k) && answers:
		return []verbChoice{verbRunAgain, verbNeverHappened, verbHappened, verbAbandon, verbForget}
	case needsDecision(k):
		return []verbChoice{verbRunAgain, verbNeverHappened, verbAbandon, verbForget}
	case k.State == store.StateInProgress:
		return nil // its owner lives
	default:
		return []verbChoice{verbForget}
	}
}
