// Package adopt moves a service whose idempotency keys are in Redis to a guard, while old and new processes serve side by
// side. server/ADOPT.md has the phases. The wrappers are two, because Redis takes no part in the transaction of the
// effect: one claims in the run, and the other one writes the answer behind its COMMIT.
package adopt

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
)

// Keys are the keys of the old code.
type Keys struct {
	Client redis.UniversalClient
	// Name returns the name of a request's key in Redis, as the old code does.
	Name func(*http.Request) string
	// Retention is how long the old code keeps an answer.
	Retention time.Duration
}

// An Entry is what the old code keeps under a key, as JSON. By is new: it names the run that has claimed the key. The
// old code does not read it.
type Entry struct {
	Hash []byte `json:"hash"`
	Code int    `json:"code,omitempty"` // of the answer, 0 while the key is in progress
	Body []byte `json:"body,omitempty"`
	By   string `json:"by,omitempty"`
}

// Hash is the old code's hash of a request.
func Hash(body []byte) []byte {
	sum := sha256.Sum256(body)
	return sum[:]
}

// swap replaces what is under a key, if it still is as it was seen. Without a new value the key is deleted.
var swap = redis.NewScript(`
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] == '' then redis.call('del', KEYS[1]) else redis.call('set', KEYS[1], ARGV[2], 'px', ARGV[3]) end
return 1`)

// Around is put around the guarded handler. A key that the old code knows is answered as the old code does. If write is
// set, old processes may run: they find the guard's answers in Redis.
func (k Keys) Around(guarded http.Handler, write bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := readBody(r)
		if err != nil {
			Answer(w, http.StatusBadRequest, nil)
			return
		}
		entry, _, err := k.get(r)
		switch {
		case err != nil:
			slog.WarnContext(r.Context(), "no Redis", "error", err)
			Answer(w, http.StatusServiceUnavailable, nil)
		case entry.Hash != nil && !bytes.Equal(entry.Hash, Hash(body)):
			Answer(w, http.StatusUnprocessableEntity, nil)
		case entry.Code != 0:
			Answer(w, entry.Code, entry.Body)
		case write:
			k.guardAndWrite(w, r, guarded, Hash(body))
		default:
			guarded.ServeHTTP(w, r)
		}
	})
}

// guardAndWrite writes the guard's answer before it leaves. If this process dies in between, the key stays in progress
// for old processes, and the next new one gets the answer from its record.
func (k Keys) guardAndWrite(w http.ResponseWriter, r *http.Request, guarded http.Handler, hash []byte) {
	answer := &buffer{ResponseWriter: w, status: http.StatusOK}
	guarded.ServeHTTP(answer, r)
	if isFinal(answer) {
		crash("before the answer is written")
		value, _ := json.Marshal(Entry{Hash: hash, Code: answer.status, Body: answer.body.Bytes()}) // always can
		if err := k.Client.Set(context.WithoutCancel(r.Context()), k.Name(r), value, k.Retention).Err(); err != nil {
			slog.WarnContext(r.Context(), "old processes do not know an answer", "error", err)
		}
	}
	w.WriteHeader(answer.status)
	_, _ = w.Write(answer.body.Bytes())
}

// isFinal reports whether an answer is the key's, for ever: neither a refusal of the guard, nor one after which the
// caller should come again.
func isFinal(a *buffer) bool {
	h := a.Header()
	return h.Get(wire.HeaderCode) == "" && (a.status < 300 || h.Get(wire.HeaderShouldRetry) == "false")
}

// Inside is the guarded handler. It claims the key in Redis, so that old processes find it in progress.
func (k Keys) Inside(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		claim, err := k.claim(r)
		if err != nil {
			slog.WarnContext(r.Context(), "not claimed", "error", err)
		}
		if claim == "" { // by an old process, whose answer Around will find
			_ = server.Settle(r.Context(), server.Release())
			w.Header().Set("Retry-After", "1")
			Answer(w, http.StatusConflict, nil)
			return
		}
		crash("after the claim")
		answer := &buffer{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(answer, r)
		if !isStored(answer.status) { // rolled back, so an old process may run it
			_ = swap.Run(r.Context(), k.Client, []string{k.Name(r)}, claim, "", 0).Err() // else a new one does
		}
		w.WriteHeader(answer.status)
		_, _ = w.Write(answer.body.Bytes())
	})
}

// isStored reports whether a guard stores an answer, as [server.Effect] says.
func isStored(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusRequestTimeout,
		http.StatusMisdirectedRequest, http.StatusLocked, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	default:
		return status < http.StatusInternalServerError
	}
}

// claim returns what it wrote, or "" if an old process has the key. The guard lets one run in, so a claim of another run
// is that of a run which is over. It is taken over in one step: that run may still be about to delete it.
func (k Keys) claim(r *http.Request) (string, error) {
	body, err := readBody(r)
	if err != nil {
		return "", err
	}
	value, _ := json.Marshal(Entry{Hash: Hash(body), By: uuid.NewString()}) // always can
	claim, retention := string(value), k.Retention.Milliseconds()
	if set, err := k.Client.SetNX(r.Context(), k.Name(r), claim, k.Retention).Result(); err != nil {
		return "", err
	} else if set {
		return claim, nil
	}
	entry, seen, err := k.get(r)
	if err != nil || entry.By == "" {
		return "", err
	}
	swapped, err := swap.Run(r.Context(), k.Client, []string{k.Name(r)}, seen, claim, retention).Bool()
	if err != nil || !swapped {
		return "", err
	}
	return claim, nil
}

// get returns what is under the request's key, as JSON too. A key that is not there is the zero Entry.
func (k Keys) get(r *http.Request) (entry Entry, text string, err error) {
	text, err = k.Client.Get(r.Context(), k.Name(r)).Result()
	if errors.Is(err, redis.Nil) {
		return Entry{}, "", nil
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &entry)
	}
	return entry, text, err
}

// crash is where a process may die; tests set it.
var crash = func(string) {}

// Answer writes an answer as the old code does.
func Answer(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a caller that is gone asks again
}

// readBody reads the body and leaves it to be read once more.
func readBody(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, server.DefaultMaxRequestBytes))
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body, err
}

// A buffer keeps an answer until Redis knows it.
type buffer struct {
	http.ResponseWriter // for the header

	status int
	body   bytes.Buffer
}

func (b *buffer) WriteHeader(status int)      { b.status = status }
func (b *buffer) Write(p []byte) (int, error) { return b.body.Write(p) }
