package console

import "github.com/fanonce/fanonce/saga/journal"

// The verbs for sagas.
var (
	verbRetry = verb{
		Name: string(journal.VerbRetry), Label: "Retry",
		Consequence: "The saga goes on in the direction that it had. Each failed call is tried anew under its key, with new budgets of time.",
	}
	verbRetryNow = verb{
		Name: string(journal.VerbRetryNow), Label: "Retry now",
		Consequence: "The waiting calls of the saga are tried within a lease of its engine, instead of after their backoff.",
	}
	verbCancel = verb{
		Name: string(journal.VerbCancel), Label: "Cancel", Harm: true,
		Consequence: "The saga begins no further step, and undoes its effects. A saga past its pivot is refused.",
	}
	verbAbandonSaga = verb{
		Name: string(journal.VerbAbandon), Label: "Abandon", Harm: true,
		Consequence: "The saga ends where it stands. Nothing more is done and nothing is undone, whatever that leaves behind.",
	}
	verbForceOK = verb{
		Name: string(journal.VerbForceOK), Label: "Force OK", Harm: true, Step: true, Output: true,
		Consequence: "You state that the step took effect, and give its output. The saga goes on with it.",
	}
	verbForceUndone = verb{
		Name: string(journal.VerbForceUndone), Label: "Force undone", Harm: true, Step: true,
		Consequence: "You state that nothing is left of the step: somebody undid it by hand, or accepts what is left. The saga goes on.",
	}
	verbForceRejected = verb{
		Name: string(journal.VerbForceRejected), Label: "Force rejected", Harm: true, Step: true,
		Consequence: "You state that the call of the step did not happen, and that no late copy of it will. A saga that went forward goes back now.",
	}
)

// sagaVerbs are the verbs for sagas, by their names.
var sagaVerbs = byName(verbRetry, verbRetryNow, verbCancel, verbAbandonSaga, verbForceOK, verbForceUndone, verbForceRejected)

// sagaListVerbs are the verbs that fit the sagas of a list. They need no step.
func sagaListVerbs(status string) []verbChoice {
	switch status {
	case journal.Stuck.String():
		return []verbChoice{verbRetry, verbCancel, verbAbandonSaga}
	case journal.Running.String():
		return []verbChoice{verbRetryNow, verbCancel, verbAbandonSaga}
	case journal.Compensating.String():
		return []verbChoice{verbRetryNow, verbAbandonSaga}
	case statusUnfinished:
		return []verbChoice{verbRetry, verbRetryNow, verbCancel, verbAbandonSaga}
	default:
		return nil
	}
}

// sagaVerbsFor are the verbs that fit one saga as a whole.
func sagaVerbsFor(s *sagaRow) []verbChoice {
	switch s.Status {
	case journal.Stuck:
		if s.FailedAt.IsZero() {
			return []verbChoice{verbRetry, verbCancel, verbAbandonSaga}
		}
		return []verbChoice{verbRetry, verbAbandonSaga}
	case journal.Running:
		return []verbChoice{verbRetryNow, verbCancel, verbAbandonSaga}
	case journal.Compensating:
		return []verbChoice{verbRetryNow, verbAbandonSaga}
	default:
		return nil
	}
}

// canForceOK reports whether a person may give the output of a step, if the definition is known.
func canForceOK(s *sagaRow, step *stepRow) bool {
	return s.Status == journal.Stuck && s.FailedAt.IsZero() && step.State() != stateCompleted
}

// stepVerbsFor are the verbs that fit a step of a stuck saga. The operator has the last word: it knows the plan. defined:
// it knows the saga's definition, too.
func stepVerbsFor(s *sagaRow, step *stepRow, defined bool) []verbChoice {
	if s.Status != journal.Stuck {
		return nil
	}
	var fit []verbChoice
	begun, state, back := step.Forward != nil, step.State(), !s.FailedAt.IsZero()
	if defined && canForceOK(s, step) {
		fit = append(fit, verbForceOK)
	}
	if back && begun && state != stateRejected && step.UndoState() != stateCompleted {
		fit = append(fit, verbForceUndone)
	}
	if begun && state != stateCompleted && state != stateRejected {
		fit = append(fit, verbForceRejected)
	}
	return fit
}
