package redisstore

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

//go:embed script/*.lua
var scriptFiles embed.FS

// A script is sent by its digest. A server that does not know it gets the text first.
type script struct {
	name, text, sha string
	writes          bool // it may change the store, so the fate of a lost call is unknown
	confirmed       bool // its reply is given out only when enough replicas have what it saw
}

func newScript(name string, writes, confirmed bool, parts ...string) *script {
	text := ""
	for _, part := range append(parts, name) {
		b, err := scriptFiles.ReadFile("script/" + part + ".lua")
		if err != nil {
			panic(err) // embedded: a test would see it
		}
		text += string(b)
	}
	sum := sha1.Sum([]byte(text)) // the name that Redis gives it
	return &script{name: name, text: text, sha: hex.EncodeToString(sum[:]), writes: writes, confirmed: confirmed}
}

// newMove returns a script on top of record.lua.
func newMove(name string) *script { return newScript(name, true, true, "record") }

var (
	claimScript      = newScript("claim", true, true)
	completeScript   = newScript("complete", true, true)
	renewScript      = newScript("renew", true, true)
	takeOverScript   = newMove("take_over")
	quarantineScript = newMove("quarantine")
	settleScript     = newMove("settle")
	cancelScript     = newMove("cancel")
	resolveScript    = newMove("resolve")
	forgetScript     = newMove("forget")
	deferScript      = newMove("defer")
	readScript       = newScript("read", false, true)
	listScript       = &script{name: "list", text: readScript.text, sha: readScript.sha}
	noteScript       = newScript("note", true, false)
	dueScript        = newScript("due", false, false)
	sweepScript      = newScript("sweep", true, false)
	attentionScript  = newScript("attention", false, false)
	statsScript      = newScript("stats", false, false)

	scripts = []*script{
		claimScript, completeScript, renewScript, takeOverScript, quarantineScript, settleScript, cancelScript, resolveScript,
		forgetScript, deferScript, readScript, noteScript, dueScript, sweepScript, attentionScript, statsScript,
	}
)

// The codes of a reply of record.lua.
const (
	codeNo      = 0
	codeYes     = 1
	codeAbsent  = 2
	codeExpired = 3
)

// list returns the elements of a reply.
func list(value any) []any {
	l, _ := value.([]any)
	return l
}

// text returns a string of a reply; empty if there is none.
func text(l []any, i int) string {
	if i >= len(l) {
		return ""
	}
	s, _ := l[i].(string)
	return s
}

// integer returns an integer of a reply; 0 if there is none.
func integer(l []any, i int) int64 {
	if i >= len(l) {
		return 0
	}
	n, _ := l[i].(int64)
	return n
}

// clock returns the server's time in the elements i and i+1 of a reply.
func clock(l []any, i int) (time.Time, error) {
	s, err := strconv.ParseInt(text(l, i), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: no time in %v", errReply, l)
	}
	us, err := strconv.ParseInt(text(l, i+1), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: no time in %v", errReply, l)
	}
	return time.Unix(s, us*1000).UTC(), nil
}

// parseMove returns the code and the record of a reply of record.lua.
func parseMove(id store.ID, value any) (code int64, r store.Record, err error) {
	l := list(value)
	if len(l) < 3 {
		return 0, r, fmt.Errorf("%w: %v", errReply, value)
	}
	code = integer(l, 0)
	raw := text(l, 3)
	if raw == "" {
		return code, r, nil
	}
	now, err := clock(l, 1)
	if err != nil {
		return 0, r, err
	}
	r, err = decode(id, raw, now)
	return code, r, err
}
