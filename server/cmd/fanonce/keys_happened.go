package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanonce/fanonce/server"
)

// maxAnswerBytes is the longest body of an answer that this program stores.
const maxAnswerBytes = 1 << 20

// A happening is the flags of keys resolve --as happened.
type happening struct {
	status                int
	bodyFile, contentType string
	plain                 bool
	retention             time.Duration
}

func (h *happening) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&h.status, "status", 0, "with --as happened: status of the answer, 200 to 999; required")
	f.StringVar(&h.bodyFile, "body-file", "", "with --as happened: file with the body of the answer; - is stdin; default: no body")
	f.StringVar(&h.contentType, "content-type", "", "with --as happened: default application/json for a body in JSON, else text/plain")
	f.BoolVar(&h.plain, "plain", false, "with --as happened: the service's guards read answers in plain text; required")
	f.DurationVar(&h.retention, "retention", 0, "with --as happened: how long retries get the answer; default 24h, as a guard's Retention")
}

// checkRetention refuses a time that no guard's Retention can be.
func checkRetention(d time.Duration) error {
	if d != 0 && (d < server.DefaultLease || d > server.MaxRetention) {
		return fmt.Errorf("--retention %v is not between %v and %v", d, server.DefaultLease, server.MaxRetention)
	}
	return nil
}

// given reports whether one of the flags is used.
func (h *happening) given() bool { return *h != happening{} }

// check refuses an answer that no guard can store.
func (h *happening) check() error {
	switch {
	case !h.plain:
		return errors.New("--as happened needs --plain: this program does not seal the answer, " +
			"so a service whose guards have a Codec could not read it; see --help")
	case h.status < 200 || h.status > 999:
		return fmt.Errorf("--status %d is not between 200 and 999: it is the status that retries get", h.status)
	case h.contentType != "" && h.bodyFile == "":
		return errors.New("--content-type is of a body: give --body-file, too")
	case h.bodyFile != "" && (h.status == http.StatusNoContent || h.status == http.StatusNotModified):
		return fmt.Errorf("--body-file: an answer with the status %d has no body", h.status)
	}
	return checkRetention(h.retention)
}

// resolution reads the body.
func (h *happening) resolution(a *app) (server.Resolution, error) {
	r := server.Response{Status: h.status}
	if h.bodyFile == "" {
		return server.Happened(r), nil
	}
	file := a.stdin
	if h.bodyFile != "-" {
		var err error
		if file, err = os.Open(h.bodyFile); err != nil {
			return server.Resolution{}, fmt.Errorf("--body-file: %w", err)
		}
		defer file.Close()
	} else {
		a.tookLine = true
	}
	body, err := io.ReadAll(io.LimitReader(file, maxAnswerBytes+1))
	switch {
	case err != nil:
		return server.Resolution{}, fmt.Errorf("--body-file: %w", err)
	case len(body) > maxAnswerBytes:
		return server.Resolution{}, errors.New("--body-file has more than " + strconv.Itoa(maxAnswerBytes) + " bytes")
	}
	r.Body, r.Header = body, http.Header{"Content-Type": {h.typeOf(body)}}
	return server.Happened(r), nil
}

func (h *happening) typeOf(body []byte) string {
	switch {
	case h.contentType != "":
		return h.contentType
	case json.Valid(body):
		return "application/json"
	default:
		return "text/plain; charset=utf-8"
	}
}
