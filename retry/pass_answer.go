package retry

import (
	"io"
	"net/http"
	"sync"
)

// noteAnswer notes in the Calls of the caller's ctx how the call ended, once the body of
// its answer has ended. The end of a 101's connection says nothing.
func (p *passage) noteAnswer(resp *http.Response) {
	outcome := p.tally.outcome()
	switch {
	case p.noted == nil:
	case p.reads:
		p.noted(NotSent)
	case resp.Body == nil || resp.Body == http.NoBody || resp.StatusCode == http.StatusSwitchingProtocols:
		p.noted(outcome)
	default:
		resp.Body = &notedBody{ReadCloser: resp.Body, outcome: outcome, noted: p.noted}
	}
}

// A notedBody notes the outcome of a call at the end of its answer's body. The outcome is
// Unknown if the body breaks off.
type notedBody struct {
	io.ReadCloser
	outcome Outcome // if the body does not break off

	once  sync.Once
	noted func(Outcome)
}

func (b *notedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == io.EOF:
		b.end(b.outcome)
	case err != nil:
		b.end(Unknown)
	}
	return n, err
}

// Close ends the body. A caller that reads no further has seen what it wants.
func (b *notedBody) Close() error {
	err := b.ReadCloser.Close()
	b.end(b.outcome)
	return err
}

func (b *notedBody) end(o Outcome) { b.once.Do(func() { b.noted(o) }) }
