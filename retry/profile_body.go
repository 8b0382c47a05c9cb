package retry

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/fanonce/fanonce/childkey"
)

// withKey returns body with the key as the member of that name. It puts the key in front of
// the caller's bytes, and does not encode those anew: the order of members and the spelling
// of numbers are the caller's. The error wraps ErrInvalid.
func withKey(body []byte, name string, key childkey.Key) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return nil, fmt.Errorf("%w: Body: not a JSON object, it cannot carry the key", ErrInvalid)
	}
	if _, given := members[name]; given {
		return nil, fmt.Errorf("%w: Body: there is a member %q already", ErrInvalid, name)
	}
	field, err := json.Marshal(map[string]string{name: key.String()})
	if err != nil {
		return nil, fmt.Errorf("%w: Body: %w", ErrInvalid, err)
	}
	rest := bytes.TrimSpace(body)[1:]
	field = field[:len(field)-1]
	if len(members) > 0 {
		field = append(field, ',')
	}
	return append(field, rest...), nil
}
