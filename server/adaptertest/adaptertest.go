package adaptertest

import (
	"context"
	"errors"
	"testing"

	"github.com/fanonce/fanonce/server"
)

// An Operation is served by the adapter under test.
type Operation struct {
	// Guard guards the operation, which is [server.Transactional]. The key of a call is its Idempotency-Key.
	Guard *server.Guard
	// Handle is the operation. The adapter's handler calls it with its own ctx and with the input that it got, and answers
	// as its framework does:
	//   - no error: success, with Reply.Text as the answer;
	//   - [ErrRefused]: a refusal of the input that is stored, such as 400 or INVALID_ARGUMENT. Its effects are rolled back;
	//   - another error: a failure of the service, such as 500 or INTERNAL.
	//
	// Before it answers it adds Reply.Note to the header or metadata named [NoteHeader], and keeps the values that are
	// there. A protocol without headers leaves it out.
	Handle func(ctx context.Context, input string) (Reply, error)
}

// NoteHeader is the header of [Reply].Note. The guard must replay it: the suite's guards have it in
// [server.Config].ReplayHeaders.
const NoteHeader = "X-Note"

// A Reply is the answer of an [Operation].
type Reply struct{ Text, Note string }

// ErrRefused is the error of an [Operation] that refuses its input.
var ErrRefused = errors.New("adaptertest: the operation refuses this input")

// A Caller calls a served operation once, with a key and an input. It does not repeat a call by itself.
type Caller func(ctx context.Context, key, input string) (Answer, error)

// An Answer is the result of a call of an [Operation].
type Answer struct {
	// Outcome is [OK], [Refused], [Failed], or the code with which the guard refused the call, such as "key-reused".
	Outcome string
	Text    string   // of [OK]
	Notes   []string // the values of [NoteHeader]; nil if the protocol has no headers
	// Replayed says that the answer is marked as a repetition.
	Replayed bool
	// Retry says that the answer advises to send the call again; false for [OK].
	Retry bool
}

// The outcomes of calls that the guard does not refuse.
const (
	OK      = "ok"
	Refused = "refused" // the handler's own refusal
	Failed  = "failed"  // the handler's own failure
)

// Test runs every rule as a parallel subtest, each with a service of its own. serve serves the operation, ends the service
// in tb.Cleanup, and returns what calls it.
func Test(t *testing.T, serve func(tb testing.TB, op Operation) Caller) {
	t.Helper()
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			r.holds(newCheck(t, serve))
		})
	}
}
