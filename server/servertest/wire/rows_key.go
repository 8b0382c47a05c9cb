package main

import (
	"strings"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
)

const (
	spec  = "wire/SPEC.md"
	draft = "draft-ietf-httpapi-idempotency-key-header-07"
)

func keyRows() []row {
	return []row{
		{
			id: "key/missing", situation: "A guarded route gets no key.",
			sent: "no `Idempotency-Key`", want: "400 `key-missing`", source: draft + " 2.7",
			check: func(p *probe) {
				r := p.forward()
				r.keys = nil
				p.wantRefusal(r, wire.KeyMissing)
			},
		},
		{
			id: "key/quoted", situation: "A key comes quoted, and then bare.",
			sent: "`\"k\"`, then `k`", want: "the second is a replay", source: draft + " 2.1; " + spec + ", The request",
			check: func(p *probe) {
				first := p.wantRun(p.forward())
				r := p.forward()
				r.keys = []string{p.key}
				p.wantReplay(r, first)
			},
		},
		{
			id: "key/parameters", situation: "A quoted key has parameters.",
			sent: "`\"k\"`, then `\"k\";v=1`", want: "the second is a replay", source: "RFC 9651 3.3.3",
			check: func(p *probe) {
				first := p.wantRun(p.forward())
				r := p.forward()
				r.keys = []string{quoteKey(p.key) + ";v=1"}
				p.wantReplay(r, first)
			},
		},
		{
			id: "key/longest", situation: "A key has 255 bytes.",
			sent: "two keys of 255 bytes that differ in the last one", want: "2xx, and two runs", source: spec + ", The request",
			check: func(p *probe) {
				long := p.key + strings.Repeat("k", childkey.MaxKeyBytes-1-len(p.key))
				for _, end := range []string{"a", "b"} {
					r := p.forward()
					r.keys = []string{quoteKey(long + end)}
					p.wantRun(r)
				}
			},
		},
		{
			id: "key/case", situation: "Two keys differ in upper and lower case.",
			sent: "`k-A`, then `k-a`", want: "two runs", source: spec + ", The request",
			check: func(p *probe) {
				for _, end := range []string{"-A", "-a"} {
					r := p.forward()
					r.keys = []string{quoteKey(p.key + end)}
					p.wantRun(r)
				}
			},
		},
	}
}

// invalid are the lines of Idempotency-Key that no service may take for a key. K stands for a
// text that would be one.
var invalid = []struct{ name, sent, source string }{
	{"empty", ``, spec},
	{"empty-string", `""`, spec},
	{"open-quote", `"K`, "RFC 9651 3.3.3"},
	{"stray-quote", `K"K`, spec},
	{"space", `K K`, spec},
	{"quoted-space", `"K K"`, spec},
	{"comma", `K,K`, "RFC 9651 4.2: not one Item"},
	{"two-strings", `"K", "K"`, "RFC 9651 4.2: not one Item"},
	{"backslash", `"K\\K"`, spec},
	{"inner-list", `("K")`, draft + " 2.1: an Item"},
	{"bad-parameters", `"K";=`, "RFC 9651 3.1.2"},
	{"not-ascii", "K\u00e9", "RFC 9651 3.3.3"},
	{"too-long", `"` + strings.Repeat("K", childkey.MaxKeyBytes+1) + `"`, spec},
	{"two-lines", "K\nK", draft + " 2.1: an Item"},
}

func invalidKeyRows() (all []row) {
	for _, bad := range invalid {
		lines := strings.Split(bad.sent, "\n")
		all = append(all, row{
			id: "key-invalid/" + bad.name, situation: "The key is malformed: " + strings.ReplaceAll(bad.name, "-", " ") + ".",
			sent: describeInvalid(bad.name, lines), want: "400 `key-invalid`, no retry", source: bad.source,
			check: func(p *probe) {
				r := p.forward()
				r.keys = nil
				for _, l := range lines {
					r.keys = append(r.keys, strings.ReplaceAll(l, "K", "k"))
				}
				p.wantAdvice(p.wantRefusal(r, wire.KeyInvalid), false)
			},
		})
	}
	return all
}

// describeInvalid returns a text for the table of the contract, in one line of a table.
func describeInvalid(name string, lines []string) string {
	switch name {
	case "empty":
		return "an empty line"
	case "too-long":
		return "256 bytes"
	case "two-lines":
		return "two lines with one key"
	}
	return "`" + strings.ToLower(lines[0]) + "`"
}
