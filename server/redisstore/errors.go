package redisstore

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fanonce/fanonce/server/store"
)

var (
	// ErrConfig means that a field of [Config], an option or a URL has a value that does not work.
	ErrConfig = errors.New("redisstore: bad config")
	// ErrSetting means that a server would lose what it acknowledged. A [*SettingError] says which setting.
	ErrSetting = errors.New("redisstore: unsafe setting")
	// ErrUnreadableSetting means that the server does not show its settings: see [Config].Unverified.
	ErrUnreadableSetting = errors.New("redisstore: the server does not show its settings")
	// ErrArgument is [store.ErrArgument]: a request is invalid. Nothing changed.
	ErrArgument = store.ErrArgument
	// ErrClosed means that [Store.Close] was called.
	ErrClosed = errors.New("redisstore: store is closed")
	// ErrQueueFull means that [Config].MaxQueued calls wait for the server already. Nothing changed.
	ErrQueueFull = errors.New("redisstore: too many calls wait for the server")
	// ErrUnconfirmed means that fewer replicas than [Config].Replicas confirmed a write in time. The write may be
	// lost by a failover.
	ErrUnconfirmed = errors.New("redisstore: too few replicas confirmed")

	errReply = errors.New("redisstore: unexpected reply")
)

// A SettingError is returned by [Open] for a server whose settings can lose what it acknowledged. It matches
// [ErrSetting].
type SettingError struct {
	Node    string // the address
	Setting string // the name in redis.conf
	Value   string
	Want    string // for a person
}

// Error implements error.
func (e *SettingError) Error() string {
	return fmt.Sprintf("redisstore: %s: %s is %q, want %s", e.Node, e.Setting, e.Value, e.Want)
}

// Is reports whether target is [ErrSetting].
func (e *SettingError) Is(target error) bool { return target == ErrSetting }

// An outcome says what an error of one call means.
type outcome uint8

const (
	refused  outcome = iota // the server executed nothing, and said so, or was not reached
	noScript                // it does not know the script
	elsewhere
	asking  // the slot is moving: another node has the key
	later   // it cannot do it at this moment
	unknown // the connection was lost: it may have executed the call
)

// withinScript finds the error of a command of a script in the answer of Redis 6.2. It follows the place in the script.
var withinScript = regexp.MustCompile(`^ERR Error running script .*@user_script: ?[0-9]+: -?([A-Z]+) `)

// code returns the word that says why a server refused a call: the first one of its answer, as from Redis 7 on.
func code(answer string) string {
	if found := withinScript.FindStringSubmatch(answer); found != nil {
		return found[1]
	}
	word, _, _ := strings.Cut(answer, " ")
	return word
}

// classify says what err means. A server answers before it executes a script, or after the whole of it.
func classify(err error) outcome {
	var answer redis.Error
	if !errors.As(err, &answer) {
		var dial *net.OpError
		if errors.As(err, &dial) && dial.Op == "dial" || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) {
			return refused
		}
		return unknown
	}
	switch code(answer.Error()) {
	case "NOSCRIPT":
		return noScript
	case "MOVED":
		return elsewhere
	case "ASK":
		return asking
	case "TRYAGAIN", "CLUSTERDOWN", "LOADING", "READONLY", "MASTERDOWN":
		return later
	default:
		return refused
	}
}

// refusal wraps an error of a server that executed nothing.
func refusal(name string, err error) error {
	var answer redis.Error
	if errors.As(err, &answer) && (strings.Contains(answer.Error(), "UNREADABLE") || code(answer.Error()) == "WRONGTYPE") {
		return fmt.Errorf("redisstore: %s: %w: %w", name, store.ErrRecordUnreadable, err)
	}
	if answer == nil { // it was not reached
		err = &store.BusyError{Err: err}
	}
	return fmt.Errorf("redisstore: %s: %w", name, err)
}
