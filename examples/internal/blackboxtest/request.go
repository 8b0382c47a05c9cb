package blackboxtest

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"
)

// A Request is one POST, as a caller without our library would send it.
type Request struct {
	URL, Tenant, Key, Body string
	Header                 map[string]string
}

// An Answer is what came back; the zero Answer means that nothing did.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Replayed reports whether the answer is a stored one.
func (a Answer) Replayed() bool { return a.Header.Get("Idempotent-Replayed") == "true" }

// Post sends the request once, over a connection of its own, so that nothing
// below sends it again.
func Post(ctx context.Context, r Request) Answer {
	transport := &http.Transport{DisableKeepAlives: true}
	return PostWith(ctx, &http.Client{Transport: transport}, r)
}

// PostUntilFinal sends the request until it has an answer that will not change, or
// ctx ends.
func PostUntilFinal(ctx context.Context, r Request) Answer {
	for {
		a := Post(ctx, r)
		if a.Status != 0 && a.Status != http.StatusConflict && a.Status != http.StatusServiceUnavailable || ctx.Err() != nil {
			return a
		}
		time.Sleep(5 * time.Millisecond) // between attempts, as a caller's backoff
	}
}

// PostWith is Post over the connections of client.
func PostWith(ctx context.Context, client *http.Client, r Request) Answer {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL, strings.NewReader(r.Body))
	if err != nil {
		return Answer{}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+r.Tenant)
	if r.Key != "" {
		req.Header.Set("Idempotency-Key", r.Key)
	}
	for name, value := range r.Header {
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		return Answer{}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return Answer{}
	}
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: string(body)}
}
