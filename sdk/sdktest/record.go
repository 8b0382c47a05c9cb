package sdktest

import (
	"bytes"
	"crypto/sha256"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/fanonce/fanonce/childkey/wire"
)

// A record is what the service remembers of a key.
type record struct {
	mu          sync.Mutex // held while the work runs: duplicates wait for it
	fingerprint [32]byte
	done        *answer // nil until an answer was stored
}

// neverStored are the statuses of answers that a guarded service does not keep: they speak
// for this attempt, not for the request.
var neverStored = map[int]bool{
	http.StatusUnauthorized: true, http.StatusForbidden: true, http.StatusProxyAuthRequired: true,
	http.StatusRequestTimeout: true, http.StatusMisdirectedRequest: true, http.StatusLocked: true,
	http.StatusTooEarly: true, http.StatusTooManyRequests: true,
}

// runOnce does the work for the request, or answers as it did before for its
// key. Answers below 500 are stored, but for those of neverStored. After others the key is
// free again.
func (d *Downstream) runOnce(r *http.Request, req Request) *answer {
	if req.Key == "" {
		return d.run(r, req)
	}
	fingerprint := sha256.Sum256([]byte(req.Method + "\x00" + r.URL.RequestURI() + "\x00" + string(req.Body)))
	d.mu.Lock()
	rec := d.keys[req.Key]
	if rec == nil {
		rec = &record{fingerprint: fingerprint}
		d.keys[req.Key] = rec
	}
	d.mu.Unlock()
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.fingerprint != fingerprint {
		return Problem(wire.KeyReused).answer
	}
	if rec.done != nil {
		replay := *rec.done
		replay.header = replay.header.Clone()
		replay.header.Set(wire.HeaderReplayed, "true")
		return &replay
	}
	got := d.run(r, req)
	got.header.Set(wire.HeaderReplayed, "false")
	if got.status < http.StatusInternalServerError && !neverStored[got.status] {
		rec.done = got
	}
	return got
}

func (d *Downstream) run(r *http.Request, req Request) *answer {
	again := r.Clone(r.Context())
	again.Body = io.NopCloser(bytes.NewReader(req.Body))
	w := httptest.NewRecorder()
	d.work.ServeHTTP(w, again)
	if !neverStored[w.Code] {
		d.mu.Lock()
		d.effects[req.Key]++
		d.mu.Unlock()
	}
	return &answer{status: w.Code, header: w.Header().Clone(), body: w.Body.Bytes()}
}
