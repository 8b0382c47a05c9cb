package main_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/pgjournal"
)

// The command moves sagas to a version whose plan the journal has. A dry run says what the move would say.
func TestSagaMigrate(t *testing.T) {
	t.Parallel()
	url := database(t)
	j, err := pgjournal.New(openPool(t, url), pgjournal.Config{})
	require.NoError(t, err)
	defer j.Close()
	next := saga.MustDefine("halfway", 2, func(b *saga.Builder[none, none]) {
		nothing := func(context.Context, saga.Call[none]) (none, error) { return none{}, nil }
		count := saga.StepFunc(b, "stock.count", b.Input(), nothing).ReadOnly()
		saga.StepFunc(b, "shipping.book", b.Input(), nothing).Pivot().After(count)
		saga.Return(b, b.Input())
	})
	back := stuckOf(t, url, halfway, "h-1")[0] // by an engine that would also run the others
	begun := startedOf(t, url, halfway, "h-2")
	other := startedOf(t, url, halfway, "h-3")
	move := func(code int, args ...string) verdict {
		return parse[verdict](t, on(t, url, append([]string{"saga", "migrate", "--to", "2", "--reason", "version 1 goes", "--json"}, args...)...).requireCode(t, code))
	}
	require.Contains(t, move(1, "--dry-run", begun).Refused[0], "no engine has opened with halfway version 2 yet")
	_, err = j.Plan(t.Context(), next.Plan())
	require.NoError(t, err)
	dry := move(1, "--dry-run", "--all", "--name", "halfway")
	require.Equal(t, 3, dry.Matched)
	require.Len(t, dry.Refused, 1)
	require.Contains(t, dry.Refused[0], back)
	require.Contains(t, dry.Refused[0], "it goes back")
	require.Contains(t, on(t, url, "saga", "show", begun).requireCode(t, 0).stdout, "halfway/1", "a dry run wrote")
	require.Contains(t, on(t, url, "saga", "migrate", "--to", "2", "--reason", "r", "--yes", begun).requireCode(t, 2).stderr, "--same-types")
	require.Contains(t, on(t, url, "saga", "migrate", "--to", "2", "--reason", "r", "--dry-run", "--all").requireCode(t, 2).stderr, "--name")

	require.Equal(t, 1, move(0, "--same-types", "--yes", begun).Done)
	require.Contains(t, move(1, "--same-types", "--yes", begun).Refused[0], "already")
	done := move(1, "--same-types", "--yes", "--all", "--name", "halfway")
	require.Equal(t, 2, done.Matched, "what has the version is left out")
	require.Equal(t, other, done.Changed[0].ID)
	require.Equal(t, dry.Refused, done.Refused)
	require.Contains(t, on(t, url, "saga", "show", begun).requireCode(t, 0).stdout, "halfway/2")
	log := parse[auditLog](t, on(t, url, "saga", "audit", begun, "--json").requireCode(t, 0)).Audit
	require.Equal(t, "migrate", log[0].Verb)
	require.Equal(t, "1 to 2", log[0].Step)
}
