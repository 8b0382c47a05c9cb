// Package answertest reads the table of answers for tests. Start with [Rows]. [Serve] plays a row over HTTP.
package answertest

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fanonce/fanonce/retry"
)

// A Row is one answer to a call under a key: who made it, and what it proves.
type Row struct {
	Protocol     string `json:"protocol"` // http, grpc or connect
	Who          string `json:"who"`      // made the answer
	Answer       string `json:"answer"`   // in words; with Protocol and Who it names the row
	RecognisedBy string `json:"recognised_by"`
	Profile      string `json:"profile,omitempty"` // of the client; "" means Fanonce
	Only         string `json:"only,omitempty"`    // the one client that can play the row

	// An answer over HTTP, or how the attempt ends without one.
	Method           string      `json:"method,omitempty"` // "" means POST
	Status           int         `json:"status,omitempty"`
	Header           [][2]string `json:"header,omitempty"`
	Body             string      `json:"body,omitempty"`
	Failure          string      `json:"failure,omitempty"`
	MaxResponseBytes int64       `json:"max_response_bytes,omitempty"`

	// Code is the status code that the caller gets over gRPC and connect; or a code of package wire that a guard refuses by.
	Code string `json:"code,omitempty"`

	First End `json:"first"` // what the answer proves, where every attempt ends so
	Doubt End `json:"doubt"` // the same after an attempt that may have had an effect
}

// An End is how a call ends: its outcome, and after how many attempts out of three.
type End struct {
	Outcome  string `json:"outcome"`
	Attempts int    `json:"attempts"`
}

// Name names the row among those of its protocol.
func (r Row) Name() string { return strings.Join([]string{r.Who, r.Answer, r.Profile, r.Only}, ", ") }

// ClientProfile returns the profile of the row's client. Own is that of a vendor who answers 200 with an error inside.
func (r Row) ClientProfile(tb testing.TB) *retry.Profile {
	tb.Helper()
	switch r.Profile {
	case "":
		return retry.Fanonce()
	case "Unguarded":
		return retry.Unguarded()
	case "Stripe":
		return retry.Stripe()
	case "Adyen":
		return retry.Adyen()
	case "Own":
		return &retry.Profile{Classify: func(a retry.Answer) (retry.Verdict, bool) {
			return retry.Verdict{Outcome: retry.Rejected, Evidence: "an error inside"}, strings.Contains(string(a.Body), `"error"`)
		}}
	}
	tb.Fatalf("no profile %q", r.Profile)
	return nil
}

// Rows returns the rows of a protocol. File is where package retry has the table: testdata/answers.json.
func Rows(tb testing.TB, file, protocol string) (rows []Row) {
	tb.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	var all []Row
	if err := json.Unmarshal(text, &all); err != nil {
		tb.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, r := range all {
		if r.Protocol != protocol {
			continue
		}
		if seen[r.Name()] {
			tb.Fatalf("%s has two rows %q", protocol, r.Name())
		}
		seen[r.Name()] = true
		rows = append(rows, r)
	}
	return rows
}

// Serve plays a row over HTTP/1.1 at the URL that it returns. With doubt it breaks the connection of the first request,
// whose answer is lost.
func Serve(tb testing.TB, r Row, doubt bool) (url string) {
	tb.Helper()
	var requests atomic.Int64
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	srv := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		if requests.Add(1) == 1 && doubt {
			if r.Failure == "refused" {
				_ = listener.Close()
			}
			panic(http.ErrAbortHandler)
		}
		r.serve(w, req)
	})}}
	srv.Start()
	tb.Cleanup(srv.Close)
	if r.Failure == "refused" && !doubt {
		_ = listener.Close()
	}
	return srv.URL
}

// serve answers as the row says.
func (r Row) serve(w http.ResponseWriter, req *http.Request) {
	conn := func() *net.TCPConn {
		c, _, _ := w.(http.Hijacker).Hijack()
		tcp, _ := c.(*net.TCPConn)
		return tcp
	}
	for _, h := range r.Header {
		w.Header().Add(h[0], h[1])
	}
	switch r.Failure {
	case "":
		w.WriteHeader(r.Status)
		_, _ = io.WriteString(w, r.Body)
	case "cut":
		w.Header().Set("Content-Length", "1000")
		w.WriteHeader(r.Status)
		_, _ = io.WriteString(w, "{")
		panic(http.ErrAbortHandler)
	case "reset":
		c := conn()
		_ = c.SetLinger(0)
		_ = c.Close()
	case "garbage":
		c := conn()
		_, _ = io.WriteString(c, "SSH-2.0-OpenSSH_9.2\r\n\r\n")
		_ = c.Close()
	case "silent":
		<-req.Context().Done()
		panic(http.ErrAbortHandler)
	default:
		panic(http.ErrAbortHandler)
	}
}
