package tree

import (
	"time"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/server/store"
)

// A Kind says what a [Node] stands for.
type Kind string

// The kinds of nodes.
const (
	KindKey     Kind = "key"     // a record of a store
	KindSaga    Kind = "saga"    // a saga of a journal
	KindMissing Kind = "missing" // a hop that no store of the console knows
	KindFailed  Kind = "failed"  // a store or journal that did not answer; see Err
)

// An Ending says how a node's End is to be read.
type Ending string

// The endings. The empty Ending means that the End is not known, and then it is zero.
const (
	EndSettled Ending = "settled" // The run ended at End.
	EndBy      Ending = "by"      // The run ended at End at the latest, because its lease ended then.
	EndRunning Ending = "running" // The run goes on. End is when its store was asked.
	EndDead    Ending = "dead"    // The owner's lease ended at End, without an outcome.
)

// A Node is one hop of a request: a key, a saga, or the mark of an unknown hop.
type Node struct {
	Kind Kind
	ID   store.ID // of a saga, too; zero for KindFailed
	// Source is the name of the store or journal; empty for KindMissing.
	Source string
	// Operation is the route of a key ([store.Record].Route), or a saga's definition. Empty means that
	// it is not known: stores keep the route of few records.
	Operation string
	State     string // as [store.State] or journal.Status; empty for KindMissing and KindFailed
	Effect    string // as [store.Effect]; empty for a saga
	Status    int    // of the stored answer; 0: none, or not known

	Executions       int64 // the fence
	RecoveryAttempts int

	Start  time.Time // by the clock of the source; zero: not known
	End    time.Time
	Ending Ending

	// Step is the step of the saga above that probably made the call; empty: not known. It is a guess by
	// time, and is wrong for some steps that ran side by side. Undo says that the call undid the step.
	Step string
	Undo bool
	// Entries are the calls of a saga, by time.
	Entries []journal.Entry

	Asked bool  // it is the ID that the tree was built for
	Again bool  // it is shown further up, and its children are there: the parents form a cycle
	Err   error // of KindFailed

	Children []*Node // by Start, then by Source and ID
}

// A Tree is one request.
type Tree struct {
	// Roots is the topmost hop that is known. It has more than one node if several stores have a key with
	// the same ID; only the first has children. A node of KindFailed follows for each source that failed.
	Roots []*Node
	Nodes int // of KindKey and KindSaga
	// CutDepth, CutNodes and CutTime say that the tree may have more nodes: it is deeper than
	// [Limits].Depth, larger than [Limits].Nodes, or the time was up.
	CutDepth, CutNodes, CutTime bool
	// Cycle says that the parents form a cycle. Its nodes are shown once.
	Cycle bool
}
