package pgstore_test

import (
	"context"
	"errors"
	"os"
	osexec "os/exec"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/inbox"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

// consumerURL makes the test binary a consumer of one message, which dies by
// SIGKILL where consumerDies says.
const (
	consumerURL  = "PGSTORE_TEST_CONSUMER_URL"
	consumerDies = "PGSTORE_TEST_CONSUMER_DIES"

	diesInWork       = "in the middle of its work"
	diesBeforeTheAck = "between the commit and the acknowledgement"
)

var shipped = inbox.Message{Source: "orders", ID: "0/42", Payload: []byte("order-42")}

// newConsumer is an inbox whose handler writes a row for each message.
func newConsumer(ctx context.Context, url string, observer server.Observer) (deliver func(work func()) (inbox.Delivery, error), stop func(), err error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, nil, err
	}
	store, err := pgstore.Open(ctx, cfg, pgstore.Config{AllowNonDurable: true})
	if err != nil {
		return nil, nil, err
	}
	g, err := server.NewGuard(store, server.Unscoped, server.Config{Observer: observer})
	if err != nil {
		return nil, nil, err
	}
	consumer, err := inbox.New(g, inbox.Config{Consumer: "shipping", Effect: server.Transactional})
	return func(work func()) (inbox.Delivery, error) {
		return consumer.Handle(ctx, shipped, func(ctx context.Context, payload []byte) error {
			_, err := pgstore.Tx(ctx).Exec(ctx, "insert into shipments (what) values ($1)", string(payload))
			work()
			return err
		})
	}, store.Close, err
}

type dieWhenSettled struct{}

func (dieWhenSettled) Observe(_ context.Context, e server.Event) {
	if e.Kind == server.EventSettled {
		die()
	}
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal ends the process, not this goroutine
}

// consume is the process that dies.
func consume(url string) int {
	var observer server.Observer
	work := func() {}
	if os.Getenv(consumerDies) == diesInWork {
		work = die
	} else {
		observer = dieWhenSettled{}
	}
	deliver, _, err := newConsumer(context.Background(), url, observer)
	if err == nil {
		_, err = deliver(work)
	}
	_, _ = os.Stderr.WriteString(errors.Join(errors.New("the consumer lives"), err).Error())
	return 1
}

// The broker delivers again what a dead consumer did not acknowledge. The message
// is handled once, wherever the consumer died.
func TestInbox_consumerDies(t *testing.T) {
	t.Parallel()
	testConsumerDies(t, func(t *testing.T) *pgxpool.Pool { t.Helper(); return pgtest.NewPool(t, pgstore.Migrate) })
}

func testConsumerDies(t *testing.T, tables func(*testing.T) *pgxpool.Pool) {
	t.Helper()
	for _, tt := range []struct {
		dies string
		want inbox.Result
	}{
		{diesInWork, inbox.Ran},
		{diesBeforeTheAck, inbox.Duplicate},
	} {
		t.Run(tt.dies, func(t *testing.T) {
			t.Parallel()
			look := tables(t)
			url := look.Config().ConnString()
			exec(t, look, "create table shipments (what text)")
			cmd := osexec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), consumerURL+"="+url, consumerDies+"="+tt.dies)
			out, err := cmd.CombinedOutput()
			require.ErrorContains(t, err, "killed", "%s", out)

			deliver, stop, err := newConsumer(t.Context(), url, nil)
			require.NoError(t, err)
			defer stop()
			if tt.dies == diesInWork {
				got, _ := deliver(func() {})
				require.Equal(t, inbox.Busy, got.Result, "the lease of the dead")
			}
			lapse(t, look)
			got, err := deliver(func() {})
			require.NoError(t, err)
			require.Equal(t, tt.want, got.Result)
			require.Equal(t, 1, queryRow[int](t, look, "select count(*) from shipments"))
		})
	}
}
