package pgkittest

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

var argument = regexp.MustCompile(`\$\d+`)

// GenericPlan returns the server's plan for sql whatever its arguments, written as $1, are. That is
// the plan of a prepared statement which the server may choose from the sixth time on. The types of
// arguments must be clear from sql. GenericPlan returns the nodes of the plan, the outermost first,
// under the settings of tx. It changes the setting plan_cache_mode. An error may leave tx failed.
func GenericPlan(ctx context.Context, tx pgx.Tx, sql string) (nodes []string, err error) {
	arguments := argument.FindAllString(sql, -1)
	slices.Sort(arguments)
	call := ""
	if n := len(slices.Compact(arguments)); n > 0 {
		call = "(" + strings.Repeat("null, ", n-1) + "null)"
	}
	for _, statement := range []string{"set local plan_cache_mode = force_generic_plan", "prepare pgkittest_plan as " + sql} {
		if _, err := tx.Exec(ctx, statement, pgx.QueryExecModeSimpleProtocol); err != nil {
			return nil, err
		}
	}
	rows, err := tx.Query(ctx, "explain execute pgkittest_plan"+call, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return nil, err
	}
	text, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	_, err = tx.Exec(ctx, "deallocate pgkittest_plan", pgx.QueryExecModeSimpleProtocol) // a rollback does not
	return strings.Split(strings.Join(text, " "), "->"), err
}
