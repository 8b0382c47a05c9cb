package memstore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/store"
)

// The audit log of a process that runs for long has an end. Its entries keep their numbers.
func TestLog_forgetsTheOldest(t *testing.T) {
	t.Parallel()
	log := New()
	for n := range 5*keptEntries + 7 {
		log.log(store.AuditEntry{})
		require.LessOrEqual(t, len(log.audit), 2*keptEntries)
		require.GreaterOrEqual(t, len(log.audit), min(n+1, keptEntries))
	}
	page, err := log.Reader().AuditPage(t.Context(), store.AuditRequest{Limit: keptEntries})
	require.NoError(t, err)
	require.Len(t, page, keptEntries)
	for i, e := range page {
		require.EqualValues(t, 5*keptEntries+7-i, e.Number)
	}
}
