package sdk

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/fanonce/fanonce/childkey"
)

// body returns the bytes that go over the wire: a copy of req's, with the key in
// it where the callee takes it there.
func (p Profile) body(req Request, key childkey.Key) ([]byte, error) {
	body := req.Body
	switch {
	case body != nil && req.Stream != nil:
		return nil, fmt.Errorf("%w: Body and Stream are both set", ErrRequest)
	case p.BodyField == "":
		return bytes.Clone(body), nil
	case req.Stream != nil:
		return nil, fmt.Errorf("%w: a Stream cannot carry the key in %q", ErrRequest, p.BodyField)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return nil, fmt.Errorf("%w: the body is no JSON object, it cannot carry the key", ErrRequest)
	}
	if _, taken := members[p.BodyField]; taken {
		return nil, fmt.Errorf("%w: the body has a member %q already", ErrRequest, p.BodyField)
	}
	// Put in front of the caller's bytes and not re-encoded with them: numbers
	// and the order of members are the caller's.
	field, err := json.Marshal(map[string]string{p.BodyField: key.String()})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	rest := bytes.TrimSpace(body)[1:]
	field = field[:len(field)-1]
	if len(members) > 0 {
		field = append(field, ',')
	}
	return append(field, rest...), nil
}
