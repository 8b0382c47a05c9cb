package retry

import (
	"bytes"
	"cmp"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fanonce/fanonce/childkey/wire"
)

// maxSnippet is how much of an answer is read that is not 2xx. That is enough for the
// problem in it, and for its connection to be used again. A caller that gets the whole
// answer reads more.
const maxSnippet = 64 << 10

// An answer is a complete answer of any status. Its Body may be longer than in an Answer.
type answer struct {
	Answer
	raw     *http.Response // with its body spent
	problem *wire.Problem  // the idempotency layer's; nil: the body is not one
	code    wire.Code      // the idempotency layer's; "": the answer is not its own
	theirs  wire.Code      // the service's own code, unless it could be taken for code
	detail  string         // of either problem
	cut     bool           // the body is longer than Body

	decoded []byte // the beginning of a body that has a Content-Encoding; nil: it has none, or an unknown one

	unmarked bool // the service marks its answers, and this one has neither mark nor code
	failed   bool // [Profile.Classify] says that it is no success, whatever its status
}

func (a *answer) success() bool { return a.Status/100 == 2 }

func (a *answer) usable() bool { return a.success() && !a.cut && !a.unmarked && !a.failed }

// tooLong reports whether it is a success whose body is longer than the cap.
func (a *answer) tooLong() bool { return a.success() && a.cut && !a.failed }

// snippet returns the beginning of the body, decoded.
func (a *answer) snippet() []byte {
	if a.decoded != nil {
		return a.decoded
	}
	return a.Body[:min(len(a.Body), maxSnippet)]
}

// decode returns the beginning of an encoded body: net/http leaves it encoded if the request has its own
// Accept-Encoding. It returns nil if the client does not know the coding. If the body was cut, it returns the part that
// can be read.
func decode(coding string, body []byte) []byte {
	var plain io.Reader
	var err error
	switch strings.ToLower(strings.TrimSpace(coding)) {
	case "gzip", "x-gzip":
		plain, err = gzip.NewReader(bytes.NewReader(body))
	case "deflate":
		if plain, err = zlib.NewReader(bytes.NewReader(body)); err != nil { // some servers leave the zlib format out
			plain, err = flate.NewReader(bytes.NewReader(body)), nil
		}
	default:
		return nil
	}
	if err != nil {
		return nil
	}
	decoded, _ := io.ReadAll(io.LimitReader(plain, maxSnippet))
	return decoded
}

// replayedHeader reads Idempotent-Replayed, as this library's services and Stripe send it.
func replayedHeader(header http.Header) (replayed, honoured bool) {
	return wire.ParseFlag(header[wire.HeaderReplayed]) // Values would spell the name anew
}

// err returns the answer as an error; nil if it is usable.
func (a *answer) err() error {
	switch {
	case a.usable():
		return nil
	case a.success() && a.unmarked:
		return fmt.Errorf("%w: status %d", ErrUnmarked, a.Status)
	case a.tooLong():
		return fmt.Errorf("%w: status %d", ErrResponseTooLarge, a.Status)
	default:
		return &answerError{status: a.Status, code: a.shown()}
	}
}

// read reads resp to its end, but no more than the cap, and closes it. It reads at most
// maxSnippet of an answer that is not 2xx. If the caller is given the answer, it reads at
// least that much. An answer that breaks off is a failure: the error wraps ErrTruncated.
func (a *answer) read(resp *http.Response, maxBytes int64, given bool) error {
	a.Status, a.Header, a.raw = resp.StatusCode, resp.Header, resp
	if resp.Body == nil {
		return nil
	}
	defer resp.Body.Close() //nolint:errcheck // it was read to where we want it
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return nil // its body is the connection and does not end
	}
	switch {
	case a.success():
	case given:
		maxBytes = max(maxBytes, maxSnippet)
	default:
		maxBytes = maxSnippet
	}
	body, whole, err := readBody(resp.Body, resp.ContentLength, maxBytes)
	if err != nil {
		return fmt.Errorf("%w: status %d: %w", ErrTruncated, a.Status, err)
	}
	a.Body, a.cut = body, !whole
	if a.success() {
		return nil
	}
	a.decoded = decode(a.Header.Get("Content-Encoding"), a.Body)
	a.readProblem()
	return nil
}

// readProblem finds out who refused the call, and why. The header goes first: the body
// may have the service's own shape.
func (a *answer) readProblem() {
	a.code = codeOf(a.Header)
	contentType := a.Header.Get("Content-Type")
	if p, ok := wire.ParseProblem(contentType, a.snippet()); ok && (a.code == "" || a.code == p.Code) {
		a.problem, a.code, a.detail = &p, p.Code, clean(p.Detail)
		return
	}
	code, detail := readForeign(contentType, a.snippet())
	a.detail = clean(detail)
	if !isKnown(wire.Code(code)) {
		a.theirs = wire.Code(clean(code))
	}
}

// codeOf returns the code of the idempotency layer in a header; "" if there is none.
func codeOf(header http.Header) wire.Code {
	if code := wire.Code(header.Get(wire.HeaderCode)); isKnown(code) {
		return code
	}
	return ""
}

func isKnown(code wire.Code) bool {
	_, ok := code.Situation()
	return ok
}

// shown is the code for people and for callers who branch.
func (a *answer) shown() wire.Code { return cmp.Or(a.code, a.theirs) }

// maxProblemText is the length of the longest code or detail that is passed on.
const maxProblemText = 1 << 10

// clean returns a text of a problem as it may be logged and stored: UTF-8 without
// control characters, cut to maxProblemText.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	for i := range text {
		if i > maxProblemText-utf8.UTFMax {
			return text[:i]
		}
	}
	return text
}

// readBody reads at most maxBytes; whole says that this was all. It trusts an
// announced length only as far as it would read anyway.
func readBody(body io.Reader, announced, maxBytes int64) (b []byte, whole bool, err error) {
	const trusted = 64 << 10
	room := int64(bytes.MinRead)
	if 0 <= announced && announced <= min(trusted, maxBytes) {
		room = announced + 1 // so that the end is seen, too
	}
	b = make([]byte, 0, room)
	for {
		n, err := body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case int64(len(b)) > maxBytes:
			return b[:maxBytes], false, nil
		case err == io.EOF:
			return b, true, nil
		case err != nil:
			return nil, false, err
		case len(b) == cap(b):
			b = append(b, 0)[:len(b)]
		}
	}
}

// readForeign returns the code and the detail of an answer that is not the idempotency
// layer's, in one of the shapes that services have for their refusals:
//
//   - a problem of RFC 9457;
//   - JSON with the members of a problem, or with message in place of detail;
//   - such an object in a member error, or the first of an array errors;
//   - OAuth's {"error":"code","error_description":"text"};
//   - plain text, which is the detail.
//
// Both are for people and for callers who branch: no verdict depends on them.
func readForeign(contentType string, body []byte) (code, detail string) {
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		mediaType = ""
	}
	var members refusal
	switch {
	case mediaType == "text/plain":
		return "", strings.TrimSpace(string(body))
	case len(body) > wire.MaxProblemBytes || json.Unmarshal(body, &members) != nil || members == nil:
		return "", ""
	case mediaType == wire.ProblemContentType:
		return members.text("code"), members.text("detail")
	}
	return members.read()
}

// A refusal is a JSON object that may say why a call was refused.
type refusal map[string]json.RawMessage

func (r refusal) read() (code, detail string) {
	if inner := r.inner(); inner != nil {
		return inner.code("code", "error_code", "errorCode", "status", "type"), inner.detail()
	}
	code, detail = r.code("code", "error_code", "errorCode"), r.detail()
	text := r.text("error")
	switch {
	case text == "":
	case strings.ContainsAny(text, " \t\n"): // for people, as the name of a status
		detail = cmp.Or(detail, text)
	default:
		code = cmp.Or(code, text)
	}
	return code, detail
}

// inner returns the object in the member error, or the first one in errors; nil if there
// is none.
func (r refusal) inner() refusal {
	var one refusal
	if json.Unmarshal(r["error"], &one) == nil && one != nil {
		return one
	}
	var all []refusal
	if json.Unmarshal(r["errors"], &all) == nil && len(all) > 0 {
		return all[0]
	}
	return nil
}

// code returns the first of the members that is a text, else the first that is a number.
func (r refusal) code(names ...string) string {
	for _, name := range names {
		if text := r.text(name); text != "" {
			return text
		}
	}
	for _, name := range names {
		var number json.Number
		if raw := r[name]; !bytes.HasPrefix(raw, []byte(`"`)) && json.Unmarshal(raw, &number) == nil && number != "" {
			return number.String()
		}
	}
	return ""
}

func (r refusal) detail() string {
	return cmp.Or(r.text("detail"), r.text("message"), r.text("error_description"), r.text("errorMessage"), r.text("title"))
}

// text returns the member if it is a text.
func (r refusal) text(name string) string {
	var text string
	_ = json.Unmarshal(r[name], &text) // of another type, or not there
	return text
}
