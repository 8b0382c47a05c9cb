// Package errtext puts an error inside another one without a second name of a package. So the text reads
// "sdk: bad config: Retry: Timeout: -1s is negative", not "sdk: bad config: Retry: retry: bad config: Timeout: …".
package errtext

import (
	"regexp"
	"strings"
)

// names are the names of packages, where a part of a text begins. Those of stores and journals say where a failure was.
var names = regexp.MustCompile(`(^|: |\(|; )(?:childkey|contract|retry|sdk|saga|server): `)

// Of returns the text of err as a part of another text. The names of this library's packages are left out, and so is the
// text of each known sentinel that err begins with.
func Of(err error, known ...error) string {
	text := err.Error()
	for _, sentinel := range known {
		text = strings.TrimPrefix(text, sentinel.Error()+": ")
	}
	return names.ReplaceAllString(text, "$1")
}

// Inner returns err with the text of [Of]. It wraps err.
func Inner(err error, known ...error) error { return inner{err, Of(err, known...)} }

// Mark returns err, which matches kind as well. The text stays that of err.
func Mark(err, kind error) error { return marked{err, kind} }

type marked struct {
	error
	kind error
}

func (e marked) Error() string { return e.error.Error() }

func (e marked) Unwrap() []error { return []error{e.error, e.kind} }

type inner struct {
	error
	text string
}

func (e inner) Error() string { return e.text }

func (e inner) Unwrap() error { return e.error }
