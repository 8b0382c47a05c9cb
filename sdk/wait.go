package sdk

import (
	"context"
	"fmt"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
)

// Wait starts the branches and blocks until every one of them has ended. It
// returns nil if all succeeded, else a [*FanoutError] that names each with its
// outcome. A fan-out that was given nothing gets [ErrNoCalls]; an [Each] over
// no items counts as something.
//
// Wait may be called again, and by several goroutines; it gives the same
// answer until [Fanout.Resume]. A branch that is given to the fan-out after Wait was
// called is not run, and its Future has [ErrWaited].
//
// In a function of one of its own branches, Wait returns [ErrCycle] at once. A goroutine
// that such a function starts and waits for must not call it.
func (f *Fanout) Wait() error {
	f = f.made()
	if err := f.waitsForItself(context.Background()); err != nil {
		return err
	}
	return f.wait()
}

func (f *Fanout) wait() error {
	f.mu.Lock()
	f.waited = true
	f.mu.Unlock()
	f.Start()

	f.mu.Lock()
	rounds := make([]*round, len(f.branches))
	for i, b := range f.branches {
		rounds[i] = b.round
	}
	given, err := f.given, f.err
	f.mu.Unlock()

	results := make([]Result, len(rounds))
	failed := false
	for i, r := range rounds {
		<-r.done
		results[i] = r.result
		failed = failed || r.result.Err != nil
	}
	switch {
	case failed:
		return &FanoutError{Results: results}
	case len(rounds) > 0:
		return nil
	case err != nil:
		return refuse("", "", childkey.Key{}, err)
	case !given:
		return refuse("", "", childkey.Key{}, ErrNoCalls)
	}
	return nil
}

// Resume waits as [Fanout.Wait] does and then runs those branches again whose error
// is [Resumable], with the same keys and inputs, in ctx; the others keep their
// results. It returns what Wait returns from then on. Futures show the new
// results. ctx must carry the fan-out's parent key: what it carries beside that,
// a new deadline above all, is for the new run.
//
// A branch that was Unknown stays so until the callee proves otherwise. To
// resume in another process, build the fan-out again by the same code. In a branch of its
// own Resume returns [ErrCycle], as Wait does.
func (f *Fanout) Resume(ctx context.Context) error {
	f = f.made()
	if err := f.waitsForItself(ctx); err != nil {
		return err
	}
	f.rounds.Lock()
	defer f.rounds.Unlock()
	if err := f.wait(); err == nil || !Resumable(err) {
		return err
	}
	f.mu.Lock()
	want, _ := childkey.FromContext(f.ctx)
	if got, _ := childkey.FromContext(ctx); got != want {
		f.mu.Unlock()
		return &retry.Error{
			Outcome: retry.Unknown, Evidence: "not resumed",
			Err: fmt.Errorf("%w: Resume needs the fan-out's own parent key", ErrNoParent),
		}
	}
	f.ctx = ctx
	for _, b := range f.branches {
		if Resumable(b.round.result.Err) {
			b.round = newRound(b)
		}
	}
	f.mu.Unlock()
	return f.wait()
}
