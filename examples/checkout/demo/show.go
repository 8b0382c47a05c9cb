package demo

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/fanonce/fanonce/examples/checkout/internal/checkoutapi"
	"github.com/fanonce/fanonce/examples/checkout/internal/report"
)

var errInterrupted = errors.New("interrupted")

// show is one run: set the stage, let the customers buy while things break,
// have some orders undone, wait until all is quiet, and count. It leaves nothing behind.
func show(ctx context.Context, opts options, stderr io.Writer) (_ *report.Report, err error) {
	defer func() {
		if ctx.Err() != nil && !opts.serve {
			err = errInterrupted // whatever failed, failed because of that
		}
	}()
	db, err := openDatabases(ctx, opts, stderr)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	keys, closeKeys, err := openKeys(ctx, opts.keys, db, stderr)
	if err != nil {
		return nil, err
	}
	defer closeKeys()
	s, err := setUp(ctx, opts, db, keys)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.tearDown(ctx)) }()

	began := time.Now()
	crowd := newCustomers(s.place, opts)
	sagas, err := s.play(ctx, crowd, db, stderr)
	if err != nil {
		return nil, err
	}
	if opts.serve {
		ctx = context.WithoutCancel(ctx) // Ctrl-C has ended the play. A second one ends the count
	}
	r, err := s.count(ctx, crowd, sagas)
	if err != nil {
		return nil, err
	}
	r.Storage = db.String()
	if opts.keys.isSet() {
		r.Keys = opts.keys.String()
	}
	r.Wall = time.Since(began)
	return r, nil
}

// play lets the crowd buy, and has some orders undone. A watched play ends with ctx.
func (s *stage) play(ctx context.Context, crowd *customers, db *databases, stderr io.Writer) (*report.Sagas, error) {
	if s.opts.serve {
		return s.watch(ctx, crowd, db, stderr)
	}
	if err := s.perform(ctx, crowd, stderr); err != nil {
		return nil, err
	}
	if s.opts.unsafe {
		return nil, nil
	}
	undone, err := s.placeDeclined(ctx)
	return &report.Sagas{Orders: declined, Undone: undone}, err
}

// perform lets the crowd buy while the payment service dies now and then.
func (s *stage) perform(ctx context.Context, crowd *customers, stderr io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	bought := make(chan struct{})
	killed := make(chan error, 1)
	go func() {
		err := s.payment.killSometimes(ctx, s.opts.killAfter(), crowd.accepted.Load, bought)
		if err != nil {
			cancel() // without payments nothing more will be bought
		}
		killed <- err
	}()
	stop := startProgress(stderr, func() string { return s.line(crowd) })
	crowd.buy(ctx, s.opts.parallel)
	close(bought)
	err := <-killed
	stop()
	return err
}

// count reads the ledgers once nothing moves any more.
func (s *stage) count(ctx context.Context, crowd *customers, sagas *report.Sagas) (*report.Report, error) {
	if err := s.rest(ctx, restTimeout); err != nil {
		return nil, err
	}
	r := &report.Report{
		Seed: s.opts.seed, Faults: s.opts.faults, Unsafe: s.opts.unsafe,
		Checkouts: crowd.orders.count(), Parallel: s.opts.parallel, Accepted: len(crowd.confirmations),
		Submissions: int(crowd.submissions.Load()), Kills: int(s.payment.kills.Load()), Unaccepted: crowd.reportFailures(), Sagas: sagas,
	}
	for _, name := range services {
		tallies, err := s.storages[name].Ledger.Tallies(ctx)
		if err != nil {
			return nil, err
		}
		tallies, ofSagas := split(tallies)
		if sagas != nil {
			auditSagas(sagas, name, ofSagas)
		}
		r.Hops = append(r.Hops, report.Audit(crowd.confirmations, report.Finding{
			Name: name, Network: s.edges[name].Counts(), Ledger: tallies, Told: told[name],
		}))
		if name == "payment" {
			r.Charged = report.Charges(tallies)
		}
	}
	r.Decide()
	return r, nil
}

// told says which effect of a service a confirmation names.
var told = map[string]func(checkoutapi.Confirmation) string{
	"checkout":     func(c checkoutapi.Confirmation) string { return c.Placement },
	"inventory":    func(c checkoutapi.Confirmation) string { return c.Hold },
	"payment":      func(c checkoutapi.Confirmation) string { return c.Receipt },
	"notification": func(c checkoutapi.Confirmation) string { return c.Message },
}
