package pgstore

import (
	"errors"
	"fmt"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgkit"
)

var (
	// ErrArgument: a value that cannot be stored, refused before anything was
	// sent.
	ErrArgument = errors.New("pgstore: bad argument")
	// ErrConfig: a field of [Config] has a value that it cannot have.
	ErrConfig = errors.New("pgstore: bad config")
	// ErrNoTx: ctx carries no transaction, as outside a Transactional run, a
	// completion hook and [Store.OnceFunc].
	ErrNoTx = errors.New("pgstore: no transaction in this context")
	// ErrTxOwned: a handler tried to end the transaction that it runs in. It
	// ends with the run: committed with the answer, or rolled back.
	ErrTxOwned = errors.New("pgstore: the transaction is ended by who began it")
	// ErrTxEnded: the run that the transaction belonged to is over.
	ErrTxEnded = errors.New("pgstore: transaction has ended")
	// ErrTxFailed: a statement of the transaction failed, or its COMMIT. No row is
	// committed.
	ErrTxFailed = errors.New("pgstore: a statement of the transaction failed")
	// ErrTxBusy: the handler left rows or a batch of the transaction open.
	// Nothing was committed.
	ErrTxBusy = errors.New("pgstore: the transaction still has open rows")
)

// wrap says what was being done, and speaks of fates in the server's terms.
func wrap(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgkit.ErrFateUnknown):
		return fmt.Errorf("pgstore: %s: %w: %w", doing, server.ErrFateUnknown, err)
	}
	return fmt.Errorf("pgstore: %s: %w", doing, err)
}
