package server

import "fmt"

// A Secret prints and marshals as its length, so that no log of a configuration
// gives it away.
type Secret []byte

// Format implements fmt.Formatter, for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, s.masked()) }

// MarshalText returns what Format prints; it cannot be unmarshalled.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.masked()), nil }

func (s Secret) masked() string { return fmt.Sprintf("[%d secret bytes]", len(s)) }
