package main

import "slices"

// The severities of findings.
const (
	severityError   = "error"   // something is lost, or does not work, now or at the next crash
	severityWarning = "warning" // something will go wrong, or waits for a person
)

// A disease is one kind of finding. Its ID never changes: scripts know it.
type disease struct {
	id, severity, why string
}

var diseases = []disease{
	{"schema-missing", severityError, "no guard or engine can start without its tables"},
	{"schema-old", severityError, "this version of the library refuses tables that are older than it"},
	{"schema-newer", severityError, "programs of this version cannot use the tables any more"},
	{"schema-elsewhere", severityError, "the tables are there, but this session's search_path does not find them: a service would find none"},
	{"schema-twice", severityWarning, "two services with different search_paths use different tables: the same key runs once in each"},
	{"index-missing", severityError, "a statement that runs all the time reads the whole table without it"},
	{"index-invalid", severityError, "Postgres does not use the index, and every write still pays for it"},
	{"grant-missing", severityError, "the service's statements fail: calls get 503 store-unavailable"},
	{"role-superuser", severityWarning, "a service that is taken over then owns the whole server; fanonce_runtime has all that it needs"},
	{"fsync-off", severityError, "a crash of the machine can forget claims and answers that were acknowledged, or break the tables"},
	{"full-page-writes-off", severityError, "a crash of the machine can leave half-written pages, which no recovery mends"},
	{"synchronous-commit-off", severityError, "a crash forgets the last acknowledged answers: a retry then runs the work again"},
	{"synchronous-commit-local", severityWarning, "commits do not wait for the synchronous standby: a failover forgets acknowledged answers"},
	{"read-only", severityError, "no key can be claimed: calls get 503 store-unavailable"},
	{"standby-server", severityError, "this server is a standby, and takes no writes"},
	{"standby-asynchronous", severityWarning, "a failover to this standby can forget acknowledged answers: a retry then runs the work again"},
	{"standby-lagging", severityWarning, "a failover takes as long as the standby needs to catch up, and reads from it are old"},
	{"standby-sync-missing", severityError, "every commit waits for a standby that is not there: all calls hang"},
	{"pooler-transaction", severityWarning, "LISTEN, the maintenance of partitions and prepared statements need a session, and lose it here"},
	{"clock-skew", severityWarning, "callers' First-Sent times are compared with the database's clock: keys can be refused as expired or from the future"},
	{"autovacuum-off", severityError, "dead rows pile up until every statement is slow, and transaction numbers run out"},
	{"autovacuum-off-table", severityWarning, "dead rows of this table pile up until every statement on it is slow"},
	{"dead-rows", severityWarning, "vacuum does not keep up: statements read rows that are gone"},
	{"index-bloat", severityWarning, "the index is much larger than its rows need: it takes memory from others"},
	{"wraparound", severityWarning, "the server stops taking writes when transaction numbers run out, at an age of two thousand million"},
	{"partitions-behind", severityWarning, "answers that find no partition go to their records, and are not dropped as cheaply"},
	{"partitions-default", severityError, "beside a default partition no other can be detached: answers past their time are not dropped"},
	{"sweep-lag", severityWarning, "nothing sweeps, or the sweep is too slow: tables grow, and data is kept longer than promised"},
	{"jit-short", severityWarning, "the server compiles statements that take a millisecond: that takes longer than the statement"},
	{"connections-low", severityWarning, "new connections are refused when none is left: calls get 503 store-unavailable"},
	{"transaction-long", severityWarning, "vacuum removes no row that ended after this transaction began, and the sweep passes over rows that it holds"},
	{"transaction-prepared", severityWarning, "nobody ends a forgotten prepared transaction: it holds its locks and blocks vacuum for ever"},
	{"slot-inactive", severityWarning, "the server keeps all log since the slot stopped, until the disk is full, and may keep dead rows"},
	{"idle-in-transaction-unbounded", severityWarning, "a process that hangs inside a transaction holds its locks, and blocks vacuum, for ever"},
	{"keys-attention", severityWarning, "these keys wait for a person: their callers get 423, or the message is a dead letter"},
	{"sagas-stuck", severityWarning, "these sagas wait for a person: they neither finish nor undo what they did"},
	{"sagas-no-engine", severityError, "sagas are due, and no engine with a lease is there to run them"},
	{"sagas-deferred", severityWarning, "these sagas have a part that the running builds do not know: they wait for another build"},
	{"unchecked", severityWarning, "a check that could not run may hide any of the findings that it looks for"},
}

func diseaseIDs() []string {
	ids := make([]string, len(diseases))
	for i, d := range diseases {
		ids[i] = d.id
	}
	return ids
}

// A finding is one thing that is wrong. It is part of the JSON of doctor.
type finding struct {
	ID       string   `json:"id"`
	Severity string   `json:"severity"`
	Subject  string   `json:"subject,omitempty"` // which table, role, session …; "" for the server
	Problem  string   `json:"problem"`
	Why      string   `json:"why"`
	Fix      []string `json:"fix"` // what to type, or what to do
}

// found makes a finding of the disease with that ID.
func found(id, subject, problem string, fix ...string) finding {
	d := diseases[slices.IndexFunc(diseases, func(d disease) bool { return d.id == id })]
	return finding{ID: id, Severity: d.severity, Subject: subject, Problem: problem, Why: d.why, Fix: fix}
}
