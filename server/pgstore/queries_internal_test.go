package pgstore

import (
	"testing"

	"github.com/fanonce/fanonce/internal/pgkittest"
)

func TestStatements_haveAField(t *testing.T) {
	t.Parallel()
	pgkittest.RequireFields(t, queryFiles, queries{}, readerQueries{})
}
