package record

import (
	"mime"
	"slices"
	"strings"
)

// normalize returns s with one spelling of what has several. A client that builds its retry
// anew, or a proxy between, may choose another spelling of the same request.
//
//   - An escape of a character that needs none is the character, and other escapes have
//     upper-case digits (RFC 3986 sections 6.2.2.1 and 6.2.2.2).
//   - The parameters of the query are ordered by name. Those of one name keep their order.
//   - The charset utf-8 of the media type is left out: it is the default of JSON (RFC 8259
//     section 8.1) and of most services.
//   - An undo has no body: its body says what the caller knows of the forward call, whose key is
//     part of the request. A caller that crashed may know less, or more.
func (s *Subject) normalize() Subject {
	n := *s
	n.Path = normalizeEscapes(s.Path)
	n.Query = orderParameters(normalizeEscapes(s.Query))
	n.MediaType = omitUTF8(s.MediaType)
	if s.Cancels != "" {
		n.Body = nil
	}
	return n
}

func normalizeEscapes(text string) string {
	if strings.IndexByte(text, '%') < 0 {
		return text
	}
	b := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] != '%' || i+2 >= len(text) || !isHex(text[i+1]) || !isHex(text[i+2]) {
			b = append(b, text[i])
			continue
		}
		if c := hexValue(text[i+1])<<4 | hexValue(text[i+2]); isUnreserved(c) {
			b = append(b, c)
		} else {
			b = append(b, strings.ToUpper(text[i:i+3])...)
		}
		i += 2
	}
	return string(b)
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

func hexValue(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}

// isUnreserved reports whether c means the same with and without an escape (RFC 3986 section 2.3).
func isUnreserved(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || strings.IndexByte("-._~", c) >= 0
}

func orderParameters(query string) string {
	if strings.IndexByte(query, '&') < 0 {
		return query
	}
	parameters := strings.Split(query, "&")
	slices.SortStableFunc(parameters, func(a, b string) int {
		a, _, _ = strings.Cut(a, "=")
		b, _, _ = strings.Cut(b, "=")
		return strings.Compare(a, b)
	})
	return strings.Join(parameters, "&")
}

// omitUTF8 takes a media type as mime.FormatMediaType writes it.
func omitUTF8(mediaType string) string {
	if !strings.Contains(mediaType, "charset=") {
		return mediaType
	}
	kind, parameters, err := mime.ParseMediaType(mediaType)
	if err != nil || !strings.EqualFold(parameters["charset"], "utf-8") {
		return mediaType
	}
	delete(parameters, "charset")
	return mime.FormatMediaType(kind, parameters)
}
