package contract

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// A segment is what stands between two slashes of a declared path.
type segment struct {
	literal  string // where wildcard is ""; already escaped
	wildcard string // its name
	rest     bool   // {name...}: all that is left, slashes included
}

// endOfPath is {$}, which makes a path that ends with a slash match itself alone.
const endOfPath = "{$}"

// parsePath returns the segments of a ServeMux path without method and host. It
// refuses what ServeMux would refuse or clean away, since a call to such a path
// is redirected and never arrives.
func parsePath(path string) ([]segment, error) {
	if !strings.HasPrefix(path, "/") {
		return nil, fmt.Errorf("path %q does not start with /", path)
	}
	var segments []segment
	parts := strings.Split(path[1:], "/")
	for i, part := range parts {
		s, err := parseSegment(part, i == len(parts)-1)
		if err != nil {
			return nil, fmt.Errorf("path %q: %w", path, err)
		}
		if s.wildcard != "" && slices.ContainsFunc(segments, func(t segment) bool { return t.wildcard == s.wildcard }) {
			return nil, fmt.Errorf("path %q: wildcard {%s} is there twice", path, s.wildcard)
		}
		segments = append(segments, s)
	}
	return segments, nil
}

func parseSegment(part string, last bool) (segment, error) {
	switch {
	case part == "" && last:
		return segment{}, errors.New("ends with /, and would serve every path below; end it with {$} or {name...}")
	case part == endOfPath && last:
		return segment{}, nil
	case strings.HasPrefix(part, "{") && strings.HasSuffix(part, "}"):
		name, rest := strings.CutSuffix(part[1:len(part)-1], "...")
		switch {
		case !identifier(name):
			return segment{}, fmt.Errorf("wildcard %s: its name is no Go identifier", part)
		case rest && !last:
			return segment{}, fmt.Errorf("wildcard %s is not at the end", part)
		}
		return segment{wildcard: name, rest: rest}, nil
	case part == "", part == ".", part == "..":
		return segment{}, fmt.Errorf("segment %q would be cleaned away", part)
	case strings.ContainsAny(part, "{}"):
		return segment{}, fmt.Errorf("segment %q has a brace: a wildcard is a whole segment, {name}", part)
	case !isEscaped(part):
		return segment{}, fmt.Errorf("segment %q has characters that must be percent-encoded", part)
	}
	return segment{literal: part}, nil
}

// fill returns value as it replaces s in the path.
func (s segment) fill(value string) (string, error) {
	parts := []string{value}
	if s.rest {
		parts = strings.Split(value, "/")
	}
	for i, part := range parts {
		// An encoded dot is a dot to many servers: /orders/../capture is
		// another operation. An empty segment is cleaned away. A segment that is
		// one encoded slash is to ServeMux the end of the path.
		if part == "" || part == "." || part == ".." || part == "/" {
			return "", fmt.Errorf("wildcard {%s}: %q cannot be a segment of a path", s.wildcard, part)
		}
		parts[i] = url.PathEscape(part)
	}
	return strings.Join(parts, "/"), nil
}

// identifier reports whether name can be a wildcard's: an ASCII Go identifier.
func identifier(name string) bool {
	for i := range len(name) {
		if c := name[i]; !letter(c) && c != '_' && (i == 0 || !digit(c)) {
			return false
		}
	}
	return name != ""
}

// isEscaped reports whether literal has only the characters that a segment may have (RFC 3986
// section 3.3). It must not encode a slash or a dot segment, because clients and servers
// disagree about those.
func isEscaped(literal string) bool {
	for i := range len(literal) {
		if c := literal[i]; !letter(c) && !digit(c) && strings.IndexByte("-._~!$&'()*+,;=:@%", c) < 0 {
			return false
		}
	}
	plain, err := url.PathUnescape(literal)
	return err == nil && plain != "." && plain != ".." && !strings.Contains(plain, "/")
}

func letter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

func digit(c byte) bool { return '0' <= c && c <= '9' }
