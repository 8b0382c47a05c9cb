package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/server/pgkit"
)

// auditBatch is how many lines of the audit log one statement deletes.
const auditBatch = 1000

// PruneAudit deletes the lines of the audit log that are older than age, in batches
// of a thousand, and returns how many it deleted, also with an error. Nothing else
// does: what is done to keys is written down by services that cannot take it back.
// So it needs a role that owns the tables ([RolesSQL]).
//
// It returns an error wrapping [ErrArgument] if age is not positive.
func (s *Store) PruneAudit(ctx context.Context, age time.Duration) (int, error) {
	if age <= 0 || age > longest {
		return 0, fmt.Errorf("%w: age %v", ErrArgument, age)
	}
	st := s.query.pruneAudit.Bind(pgx.NamedArgs{"age": age, "limit": int64(auditBatch)})
	return inBatches(ctx, auditBatch, "prune audit log", func() (int64, error) {
		return pgkit.Exec(ctx, s.writer, st)
	})
}
