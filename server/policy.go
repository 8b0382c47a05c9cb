package server

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
)

// A Policy is what a guard promises its callers, for machines to read: how they
// must make their keys, how long a retry gets its answer, and which answers
// are repeated. The Idempotency-Key draft asks a server to publish it
// (draft-ietf-httpapi-idempotency-key-header-07 section 2.3). Durations are in
// the form of ISO 8601, as PT24H.
type Policy struct {
	Key         KeyRules        `json:"key"`
	FirstSent   FirstSentRules  `json:"first_sent"`
	Scope       string          `json:"scope"`       // in words
	Methods     []string        `json:"methods"`     // that are guarded
	Fingerprint []string        `json:"fingerprint"` // what a key is bound to; another use of it is key-reused
	Answers     AnswerRules     `json:"answers"`
	Waiting     WaitRules       `json:"waiting"`
	MaxRequest  int64           `json:"max_request_bytes"`
	Problems    []PolicyProblem `json:"problems"`
	Docs        string          `json:"documentation,omitempty"` // [Config.DocsURL]
}

// KeyRules says how a key is sent and formed.
type KeyRules struct {
	Header   string `json:"header"`
	Forms    string `json:"forms"` // in words
	Pattern  string `json:"pattern"`
	MinBytes int    `json:"min_bytes"`
	MaxBytes int    `json:"max_bytes"`
	// Checked is set if keys that fit are refused by a rule of the service
	// ([Config.KeyPolicy]).
	Checked bool `json:"checked_by_service,omitempty"`
}

// FirstSentRules says what Idempotency-First-Sent does.
type FirstSentRules struct {
	Header string `json:"header"`
	Window string `json:"window"` // older ones are refused with key-expired and never run
	Skew   string `json:"skew"`   // how far in the future it may be
}

// AnswerRules says which answers are repeated, and for how long.
type AnswerRules struct {
	Lifetime        string   `json:"idempotency_key_lifetime"` // a retry gets its answer
	LifetimeSeconds int64    `json:"replay_ttl_seconds"`       // the same in seconds, rounded down
	KeptFor         string   `json:"kept_for"`                 // from the first claim: past the lifetime a retry is response-gone until then
	Stored          string   `json:"stored_statuses"`          // in words
	NotStored       []int    `json:"statuses_not_stored"`      // the next call runs
	Headers         []string `json:"replayed_headers"`
	MaxBytes        int64    `json:"max_response_bytes"` // larger ones are not repeated
}

// WaitRules says how long a duplicate waits for the first run.
type WaitRules struct {
	Header  string `json:"header"`
	Default string `json:"default"`
	Most    string `json:"most"`
}

// A PolicyProblem is one of the refusals of this package.
type PolicyProblem struct {
	Code      wire.Code `json:"code"`
	Type      string    `json:"type"`
	Status    int       `json:"status"`
	Title     string    `json:"title"`
	Retryable bool      `json:"retryable"` // with the same key
}

// Policy returns what g promises. A [Route] can differ where it says so: in
// its wait, in whether a key is required, in what of the body counts.
func (g *Guard) Policy() Policy {
	cfg := &g.cfg
	return Policy{
		Key: KeyRules{
			Header:   wire.HeaderKey,
			Forms:    "bare, or quoted as a string of RFC 8941; both are the same key",
			Pattern:  `^[!#-+\--\[\]-~]+$`,
			MinBytes: cfg.MinKeyBytes,
			MaxBytes: childkey.MaxKeyBytes,
			Checked:  cfg.KeyPolicy != nil,
		},
		FirstSent: FirstSentRules{Header: wire.HeaderFirstSent, Window: isoDuration(cfg.window()), Skew: isoDuration(cfg.Skew)},
		Scope:     "the authenticated caller; no caller sees another's keys",
		Methods:   append([]string(nil), cfg.Methods...),
		Fingerprint: []string{
			"method", "path", "query", "Content-Type", "Content-Encoding", wire.HeaderCancels, "body",
		},
		Answers:    g.answerRules(),
		Waiting:    WaitRules{Header: wire.HeaderPrefer + ": wait=N", Default: isoDuration(max(cfg.Wait, 0)), Most: isoDuration(cfg.WaitCap)},
		MaxRequest: cfg.MaxRequestBytes,
		Problems:   policyProblems(),
		Docs:       cfg.DocsURL,
	}
}

func (g *Guard) answerRules() AnswerRules {
	cfg := &g.cfg
	rules := AnswerRules{
		Lifetime:        isoDuration(cfg.replayFor()),
		LifetimeSeconds: int64(cfg.replayFor() / time.Second),
		KeptFor:         isoDuration(cfg.AuditRetention),
		Stored:          "200 to 499 except those listed; 500 and above only where the service says that it is final",
		Headers:         append(DefaultReplayHeaders(), cfg.ReplayHeaders...),
		MaxBytes:        cfg.MaxResponseBytes,
	}
	for status := http.StatusBadRequest; status < http.StatusInternalServerError; status++ {
		if neverStored(status) {
			rules.NotStored = append(rules.NotStored, status)
		}
	}
	return rules
}

func policyProblems() []PolicyProblem {
	var all []PolicyProblem
	for _, s := range wire.Situations() {
		all = append(all, PolicyProblem{
			Code: s.Code, Type: wire.TypePrefix + string(s.Code), Status: s.Status, Title: s.Title, Retryable: s.Retryable,
		})
	}
	return all
}

// PolicyHandler serves g's [Policy] as JSON, to GET and HEAD. It needs no scope:
// nothing in it is about a caller. Other methods are refused with
// method-not-allowed (405). A usual path is
// /.well-known/idempotency-key.
func (g *Guard) PolicyHandler() http.Handler {
	body, err := json.MarshalIndent(g.Policy(), "", "  ")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			h := &guarded{guard: g}
			h.refuse(w, r, &call{route: &Route{Name: cmp.Or(r.Pattern, "policy")}}, outcome{code: wire.MethodNotAllowed})
		case err != nil: // strings and numbers always encode
			http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		default:
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Cache-Control", "max-age=300")
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
			_, _ = w.Write(body) // a client that is gone asks again
		}
	})
}

// isoDuration writes d, which is not negative, as ISO 8601 does: in hours,
// minutes and seconds, because a day can have 23 hours.
func isoDuration(d time.Duration) string {
	hours, minutes, seconds := d/time.Hour, d%time.Hour/time.Minute, d%time.Minute
	text := "PT"
	if hours > 0 {
		text += strconv.FormatInt(int64(hours), 10) + "H"
	}
	if minutes > 0 {
		text += strconv.FormatInt(int64(minutes), 10) + "M"
	}
	if seconds > 0 || text == "PT" {
		text += strconv.FormatFloat(seconds.Seconds(), 'f', -1, 64) + "S"
	}
	return text
}
