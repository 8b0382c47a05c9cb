package natsstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/textproto"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The headers of JetStream that the store uses.
const (
	expectedHeader  = "Nats-Expected-Last-Subject-Sequence"
	ttlHeader       = "Nats-TTL"
	operationHeader = "KV-Operation" // DEL: other clients of the bucket see no value
	sequenceHeader  = "Nats-Sequence"
	subjectHeader   = "Nats-Subject"
	timeHeader      = "Nats-Time-Stamp"
)

// The codes of JetStream's errors that the store tells apart.
const (
	codeNoMessage       = 10037
	codeNoStream        = 10059
	codeWrongSequence   = 10071 // another message is the last one of the subject
	codeSequencePending = 10164 // an earlier write of the subject is not stored yet
	codeNoQuorum        = 10008 // the cluster has no leader, or is not ready
	codeNotLeader       = 10009
)

// attemptTimeout bounds one request. A lost answer is noticed after it.
const attemptTimeout = time.Second

// An apiError is JetStream's refusal of a request.
type apiError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *apiError) Error() string {
	return fmt.Sprintf("natsstore: JetStream: %s (%d)", e.Description, e.ErrCode)
}

// passing reports that the same request may succeed a moment later.
func (e *apiError) passing() bool { return e.ErrCode == codeNoQuorum || e.ErrCode == codeNotLeader }

// A stream speaks with the leader of one JetStream stream.
type stream struct {
	conn    *nats.Conn
	bucket  bucket
	timeout time.Duration
	// cut, of tests, sees each write before it is sent. It returns true if the answer is to be lost, or an error if the
	// process is to die before the write.
	cut func(write) (lose bool, err error)
}

// A message is one message of the stream.
type message struct {
	subject string
	rev     uint64
	at      time.Time // when the leader took it
	data    []byte
	deleted bool
}

// ask sends one request of JetStream's API to the leader, until there is an answer.
func (s *stream) ask(ctx context.Context, verb string, request, answer any) error {
	data, err := json.Marshal(request)
	if err != nil {
		return err
	}
	return s.persist(ctx, func(ctx context.Context) (again bool, err error) {
		reply, err := s.conn.RequestWithContext(ctx, "$JS.API."+verb+"."+s.bucket.stream(), data)
		if err != nil {
			return true, err
		}
		var failure struct {
			Error *apiError `json:"error"`
		}
		if err := json.Unmarshal(reply.Data, &failure); err != nil {
			return false, err
		}
		if failure.Error != nil {
			return failure.Error.passing(), failure.Error
		}
		return false, json.Unmarshal(reply.Data, answer)
	})
}

// persist repeats do while it says that another attempt may help, and the time lasts.
func (s *stream) persist(ctx context.Context, do func(ctx context.Context) (again bool, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	for n := 0; ; n++ {
		attempt, stop := context.WithTimeout(ctx, attemptTimeout)
		again, err := do(attempt)
		stop()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, nats.ErrConnectionClosed):
			return fmt.Errorf("%w: %w", ErrClosed, err)
		case !again:
			return err
		}
		if waitErr := pause(ctx, n); waitErr != nil {
			return fmt.Errorf("%w (last attempt: %w)", waitErr, err)
		}
	}
}

// pause waits before attempt n+1: up to 1 ms, doubled each time, at most 100 ms. It returns the error of ctx.
func pause(ctx context.Context, n int) error {
	timer := time.NewTimer(rand.N(min(time.Millisecond<<min(n, 10), 100*time.Millisecond)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// last returns the last message of the subject, from the stream's leader. A subject without one has rev 0.
func (s *stream) last(ctx context.Context, subject string) (message, error) {
	return s.get(ctx, map[string]any{"last_by_subj": subject})
}

// next returns the first message at or after rev that matches the filter, from the stream's leader.
func (s *stream) next(ctx context.Context, filter string, rev uint64) (message, error) {
	return s.get(ctx, map[string]any{"seq": rev, "next_by_subj": filter})
}

func (s *stream) get(ctx context.Context, request map[string]any) (message, error) {
	var answer struct {
		Message struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Header  []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	err := s.ask(ctx, "STREAM.MSG.GET", request, &answer)
	var refused *apiError
	if errors.As(err, &refused) && refused.ErrCode == codeNoMessage {
		return message{}, nil
	}
	m := answer.Message
	header, _ := nats.DecodeHeadersMsg(m.Header) // none: nil
	return message{subject: m.Subject, rev: m.Seq, at: m.Time, data: m.Data, deleted: field(header, operationHeader) != ""}, err
}

// field returns a header, in whatever case a server has written its name.
func field(h nats.Header, name string) string {
	if v := h.Get(name); v != "" {
		return v
	}
	return textproto.MIMEHeader(h).Get(name)
}

// A write is a message to store, if the last message of its subject is still the expected one.
type write struct {
	subject string
	expect  uint64 // 0: the subject has no message
	data    []byte
	deleted bool
	ttl     time.Duration // 0: the message stays
}

// A fate is what one attempt of a write has come to.
type fate uint8

const (
	refused  fate = iota // nothing was stored, and a repetition would be refused too
	taken                // the message is stored
	outpaced             // the subject's last message is not the expected one, or another write is on its way
	unknown              // sent, without an answer: it may be stored, or may be stored later
)

// publish makes one attempt to write. The error is nil if the message is stored.
func (s *stream) publish(ctx context.Context, w write) (rev uint64, f fate, err error) {
	msg := nats.NewMsg(w.subject)
	msg.Data = w.data
	msg.Header.Set(expectedHeader, strconv.FormatUint(w.expect, 10))
	if w.ttl > 0 {
		msg.Header.Set(ttlHeader, strconv.FormatInt(int64(w.ttl/time.Second)+1, 10))
	}
	if w.deleted {
		msg.Header.Set(operationHeader, "DEL")
	}
	lose := false
	if s.cut != nil {
		if lose, err = s.cut(w); err != nil {
			return 0, refused, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	reply, err := s.conn.RequestMsgWithContext(ctx, msg)
	if err != nil {
		return 0, fateOf(err), err
	}
	if lose {
		return 0, unknown, context.DeadlineExceeded
	}
	var ack struct {
		Error *apiError `json:"error"`
		Seq   uint64    `json:"seq"`
	}
	switch err := json.Unmarshal(reply.Data, &ack); {
	case err != nil:
		return 0, unknown, err
	case ack.Error == nil:
		return ack.Seq, taken, nil
	case ack.Error.ErrCode == codeWrongSequence || ack.Error.ErrCode == codeSequencePending:
		return 0, outpaced, ack.Error
	case ack.Error.passing():
		return 0, unknown, ack.Error
	default:
		return 0, refused, ack.Error
	}
}

// fateOf returns the fate of a write whose request failed. Without a responder no server has taken the message.
func fateOf(err error) fate {
	if errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrBadSubject) {
		return refused
	}
	return unknown
}

// A state is what the leader says about the stream.
type state struct {
	Now    time.Time `json:"ts"` // the leader's clock
	Config struct {
		Name string `json:"name"`
	} `json:"config"`
	State struct {
		Bytes uint64 `json:"bytes"`
		Last  uint64 `json:"last_seq"`
	} `json:"state"`
}

func (s *stream) state(ctx context.Context) (state, error) {
	var answer state
	err := s.ask(ctx, "STREAM.INFO", struct{}{}, &answer)
	return answer, err
}

// settings are those of a stream. The client library does not know PersistMode yet; empty is the default.
type settings struct {
	jetstream.StreamConfig

	PersistMode string `json:"persist_mode"`
}

func (s *stream) settings(ctx context.Context) (settings, error) {
	var answer struct {
		Config settings `json:"config"`
	}
	err := s.ask(ctx, "STREAM.INFO", struct{}{}, &answer)
	return answer.Config, err
}

// purge deletes every message of the filter.
func (s *stream) purge(ctx context.Context, filter string) error {
	var done struct{}
	return s.ask(ctx, "STREAM.PURGE", map[string]any{"filter": filter}, &done)
}
