package retry

import (
	"bytes"
	"cmp"
	"encoding/json"
	"mime"
	"strings"

	"github.com/fanonce/fanonce/childkey/wire"
)

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
	if p, ok := wire.ReadProblem(contentType, body); ok {
		return string(p.Code), p.Detail
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	switch {
	case err == nil && mediaType == "text/plain":
		return "", strings.TrimSpace(string(body))
	case len(body) > wire.MaxProblemBytes:
		return "", ""
	}
	var members refusal
	if json.Unmarshal(body, &members) != nil || members == nil {
		return "", ""
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
