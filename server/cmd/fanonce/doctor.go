package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/fanonce/fanonce/server/store"
)

// A patient is the database that the checks look at, with the flags that say how.
type patient struct {
	*app
	db      *pgxpool.Pool
	thresh  thresholds
	wanted  []component // by --component; empty: those that are there
	role    string      // whose rights are checked
	other   bool        // the role is that of --role
	standby bool
	tables  []component // that are there, at a version that this program can use
}

// thresholds are the doctor's flags.
type thresholds struct {
	long, skew, answers time.Duration
}

// A check looks for some findings.
type check struct {
	name string
	run  func(context.Context, *patient) ([]finding, error)
	// primary: it makes no sense on a standby, where its statements fail.
	primary bool
}

var checks = []check{
	{"schema", checkSchema, false},
	{"search_path", checkSearchPath, false},
	{"indexes", checkIndexes, false},
	{"grants", checkGrants, false},
	{"durability", checkDurability, false},
	{"standby", checkIsStandby, false},
	{"read-only", checkReadOnly, true},
	{"replication", checkReplication, true},
	{"pooler", checkPooler, false},
	{"clock", checkClock, false},
	{"autovacuum", checkAutovacuum, true},
	{"dead rows", checkDeadRows, true},
	{"index size", checkIndexSize, true},
	{"transaction numbers", checkWraparound, true},
	{"partitions", checkPartitions, true},
	{"sweep", checkSweep, true},
	{"JIT", checkJIT, false},
	{"connections", checkConnections, false},
	{"transactions", checkTransactions, true},
	{"prepared transactions", checkPrepared, true},
	{"replication slots", checkSlots, true},
	{"idle in transaction", checkIdle, false},
	{"attention", checkAttention, true},
	{"sagas", checkSagas, true},
}

// doctorOut is the JSON of doctor.
type doctorOut struct {
	Healthy  bool      `json:"healthy"`
	Checks   int       `json:"checks"` // how many ran
	Findings []finding `json:"findings"`
	Ignored  int       `json:"ignored"` // findings that --ignore left out
}

const (
	defaultLong = 5 * time.Minute
	defaultSkew = 2 * time.Second
)

func newDoctor(a *app) *cobra.Command {
	p := &patient{app: a}
	var names, ignored []string
	var list bool
	cmd := &cobra.Command{
		Use: "doctor", Short: "Say what is wrong with the database, why it matters and what to type", Args: takes(0, 0),
		Long: `Say what is wrong with the database, why it matters and what to type. It only reads.

Run it with the role of the service, or name that role with --role. To see the sessions of others the role needs
pg_monitor. The exit code is 0 if there is no finding, else 1. Findings have IDs that never change: --ignore
accepts one, and --list explains all. A check that could not run is a finding, too: unchecked.`,
		Example: "  fanonce doctor\n  fanonce doctor --role orders --component keys --ignore pooler-transaction --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if list {
				return a.listDiseases()
			}
			for _, id := range ignored {
				if !slices.Contains(diseaseIDs(), id) {
					return fmt.Errorf("--ignore %q is no finding: see fanonce doctor --list", id)
				}
			}
			if p.thresh.long <= 0 || p.thresh.skew <= 0 || p.thresh.answers <= 0 {
				return errors.New("--long, --skew and --answers-kept must be positive")
			}
			var err error
			if p.wanted, err = pickComponents(names); err != nil {
				return err
			}
			return p.examine(cmd.Context(), ignored)
		},
	}
	flags := cmd.Flags()
	componentFlag(cmd, &names, "those whose tables are there")
	flags.StringVar(&p.role, "role", "", "the service's role; default: the role that connects")
	flags.StringSliceVar(&ignored, "ignore", nil, "IDs of findings to leave out")
	flags.BoolVar(&list, "list", false, "explain all findings; needs no database")
	flags.DurationVar(&p.thresh.long, "long", defaultLong, "how old a transaction may be")
	flags.DurationVar(&p.thresh.skew, "skew", defaultSkew, "how far this machine's clock may be from the database's")
	flags.DurationVar(&p.thresh.answers, "answers-kept", store.DefaultAuditRetention, "how long answers are kept in partitions")
	_ = cmd.RegisterFlagCompletionFunc("ignore", cobra.FixedCompletions(diseaseIDs(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// diseaseOut is one element of the JSON of doctor --list.
type diseaseOut struct {
	ID       string `json:"id"`
	Severity string `json:"severity"`
	Why      string `json:"why"`
}

func (a *app) listDiseases() error {
	if a.json {
		out := make([]diseaseOut, len(diseases))
		for i, d := range diseases {
			out[i] = diseaseOut{ID: d.id, Severity: d.severity, Why: d.why}
		}
		return writeJSON(a.stdout, out)
	}
	t := newTable(a.stdout, "ID", "SEVERITY", "WHY IT MATTERS")
	for _, d := range diseases {
		t.row(d.id, d.severity, d.why)
	}
	return t.flush()
}

func (p *patient) examine(ctx context.Context, ignored []string) error {
	pool, err := p.pool(ctx)
	if err != nil {
		return err
	}
	p.db = pool
	if err := p.admit(ctx); err != nil {
		return err
	}
	out := doctorOut{Findings: []finding{}}
	if err := p.runChecks(ctx, ignored, &out); err != nil {
		return err
	}
	out.Healthy = len(out.Findings) == 0
	return p.printDoctor(&out)
}

func (p *patient) runChecks(ctx context.Context, ignored []string, out *doctorOut) error {
	line := p.progress("checking", int64(len(checks)))
	defer line.end()
	for i, c := range checks {
		if c.primary && p.standby {
			continue
		}
		line.set(int64(i))
		findings, err := p.run(ctx, c)
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted after %s", count(out.Checks, "check"))
		}
		if err != nil {
			findings = append(findings, found("unchecked", c.name, "this check could not run: "+err.Error(), unblock(err, p.role)))
		} else {
			out.Checks++
		}
		for _, f := range findings {
			if slices.Contains(ignored, f.ID) {
				out.Ignored++
				continue
			}
			out.Findings = append(out.Findings, f)
		}
	}
	return nil
}

// run gives a check its time.
func (p *patient) run(ctx context.Context, c check) ([]finding, error) {
	ctx, cancel := p.bound(ctx)
	defer cancel()
	return c.run(ctx, p)
}

// admit finds out what later checks need to know.
func (p *patient) admit(ctx context.Context) error {
	ctx, cancel := p.bound(ctx)
	defer cancel()
	var user string
	if err := p.db.QueryRow(ctx, "select pg_is_in_recovery(), current_user::text").Scan(&p.standby, &user); err != nil {
		return err
	}
	if p.role != "" {
		var exists bool
		if err := p.db.QueryRow(ctx, "select exists (select from pg_roles where rolname = $1)", p.role).Scan(&exists); err != nil {
			return err
		}
		if !exists {
			return fmt.Errorf("--role %q: the server has no such role", p.role)
		}
		p.other = true
	} else {
		p.role = user
	}
	for _, c := range components {
		v, err := p.version(ctx, p.db, &c)
		if err != nil {
			var pgErr *pgconn.PgError
			if errors.As(err, &pgErr) && pgErr.Code == "42501" {
				continue // the check of grants says so
			}
			return err
		}
		if v.usable() {
			p.tables = append(p.tables, c)
		}
	}
	return nil
}

// has returns whether the tables of a component are there.
func (p *patient) has(name string) bool {
	return slices.ContainsFunc(p.tables, func(c component) bool { return c.name == name })
}

// names returns the tables that are there, as Postgres reads them.
func (p *patient) names() []string {
	var names []string
	for _, c := range p.tables {
		tables, err := c.relations("table", 1<<20)
		if err != nil {
			continue // the files are embedded: a test reads them
		}
		for _, table := range tables {
			names = append(names, qualify(p.schema, table))
		}
	}
	return names
}

// unblock says how a check can run.
func unblock(err error, role string) string {
	var pgErr *pgconn.PgError
	switch {
	case errors.As(err, &pgErr) && pgErr.Code == "42501":
		return fmt.Sprintf("grant pg_monitor to %s; or run doctor as a role that may", identifier(role))
	case errors.Is(err, context.DeadlineExceeded) || errors.As(err, &pgErr) && pgErr.Code == "57014":
		return "run doctor again with a longer --timeout"
	default:
		return "run doctor again"
	}
}

func (p *patient) printDoctor(out *doctorOut) error {
	if p.json {
		if err := writeJSON(p.stdout, out); err != nil {
			return err
		}
	} else if _, err := fmt.Fprint(p.stdout, p.renderFindings(out)); err != nil {
		return err
	}
	if !out.Healthy {
		return no("")
	}
	return nil
}

func (p *patient) renderFindings(out *doctorOut) string {
	var b strings.Builder
	errs := 0
	for _, f := range out.Findings {
		if f.Severity == severityError {
			errs++
		}
		subject := ""
		if f.Subject != "" {
			subject = "  " + printable(f.Subject)
		}
		fmt.Fprintf(&b, "%s  %s%s\n  %s\n  Why: %s.\n", f.Severity, f.ID, subject, printable(oneLine(f.Problem)), f.Why)
		for _, fix := range f.Fix {
			fmt.Fprintf(&b, "  Type: %s\n", printable(fix))
		}
		b.WriteString("\n")
	}
	ignored := ""
	if out.Ignored > 0 {
		ignored = fmt.Sprintf(", %d ignored", out.Ignored)
	}
	if out.Healthy {
		fmt.Fprintf(&b, "healthy: %s found nothing%s\n", count(out.Checks, "check"), ignored)
	} else {
		fmt.Fprintf(&b, "%s, %s in %s%s\n", count(errs, "error"), count(len(out.Findings)-errs, "warning"), count(out.Checks, "check"), ignored)
	}
	return b.String()
}
