package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// auditBatch is how many lines of the audit log one statement deletes.
const auditBatch = 1000

// PruneAudit deletes the lines of the audit log that are older than age, in batches of a thousand,
// and returns how many it deleted, also with an error. No other statement deletes from the audit
// log: services write down what is done to keys, and cannot take it back. So it needs a role that
// owns the tables ([RolesSQL]).
//
// It returns an error wrapping [ErrArgument] if age is not positive.
func (s *Store) PruneAudit(ctx context.Context, age time.Duration) (int, error) {
	if age <= 0 || age > longest {
		return 0, fmt.Errorf("%w: age %v", ErrArgument, age)
	}
	st := s.query.pruneAudit.Bind(pgx.NamedArgs{"age": age, "limit": int64(auditBatch)})
	n, err := pgkit.ExecInBatches(ctx, s.db.Writer, st, auditBatch)
	return n, wrap("prune audit log", err)
}
