package sdk

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/textproto"
	"slices"
	"strings"

	"github.com/fanonce/fanonce/retry"
)

// A Part is one part of a multipart body.
type Part struct {
	// Name is the form field. Required.
	Name string
	// FileName makes the part a file; "" means a plain field.
	FileName string
	// ContentType is the part's own; "" means none for a field, and
	// application/octet-stream for a file.
	ContentType string
	// Body is what the part holds, or Stream, where that is too long to lie in
	// memory. Neither means an empty part.
	Body   []byte
	Stream *retry.Stream
}

// NewMultipart returns a body of type multipart/form-data (RFC 7578), and its content type,
// for [Request.Stream] and [Request.ContentType]. Its boundary is a hash of the parts, so
// that the same parts give the same bytes in every process. A random boundary, as of
// mime/multipart, would make each run another request. Nor can a part contain it, whoever
// wrote that part. Do not change the parts' bytes afterwards.
//
// The error wraps [ErrRequest] if there are no parts, or if a part is wrong. A part needs a
// Name; its Name, FileName and ContentType must not contain control characters. It must not
// have both Body and Stream, and retry.NewStream must have made the Stream. A Stream that
// cannot be read is an error as of retry.NewStream.
func NewMultipart(parts ...Part) (stream *retry.Stream, contentType string, err error) {
	if len(parts) == 0 {
		return nil, "", fmt.Errorf("%w: multipart: no parts", ErrRequest)
	}
	for i, part := range parts {
		if err := part.check(); err != nil {
			return nil, "", fmt.Errorf("%w: multipart: part %d: %w", ErrRequest, i, err)
		}
	}
	body, contentType, err := frame(slices.Clone(parts))
	if err != nil {
		return nil, "", fmt.Errorf("%w: multipart: %w", ErrRequest, err)
	}
	stream, err = retry.NewStream(body.open)
	return stream, contentType, err
}

func (p Part) check() error {
	switch {
	case p.Name == "":
		return errors.New("no Name")
	case p.Body != nil && p.Stream != nil:
		return fmt.Errorf("%q: Body and Stream are both set", p.Name)
	}
	for _, text := range []string{p.Name, p.FileName, p.ContentType} {
		if strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			return fmt.Errorf("%q: control character in %q", p.Name, text)
		}
	}
	return nil
}

// framed is a multipart body: frames[i], the i-th part, …, and a last frame.
type framed struct {
	frames [][]byte
	parts  []Part
}

func frame(parts []Part) (*framed, string, error) {
	var frame bytes.Buffer
	w := multipart.NewWriter(&frame)
	if err := w.SetBoundary(boundary(parts)); err != nil {
		return nil, "", err
	}
	body := &framed{parts: parts}
	for _, part := range parts {
		if _, err := w.CreatePart(part.header()); err != nil {
			return nil, "", err
		}
		body.frames = append(body.frames, bytes.Clone(frame.Bytes()))
		frame.Reset()
	}
	if err := w.Close(); err != nil {
		return nil, "", err
	}
	body.frames = append(body.frames, frame.Bytes())
	return body, w.FormDataContentType(), nil
}

// boundary hashes the parts: one that contains the hash of itself cannot be found.
func boundary(parts []Part) string {
	var b []byte
	for _, p := range parts {
		for _, text := range []string{p.Name, p.FileName, p.ContentType} {
			b = binary.BigEndian.AppendUint64(b, uint64(len(text)))
			b = append(b, text...)
		}
		sum := sha256.Sum256(p.Body)
		if p.Stream != nil {
			sum = p.Stream.Sum()
		}
		b = append(b, sum[:]...)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func (p Part) header() textproto.MIMEHeader {
	h := make(textproto.MIMEHeader)
	if p.FileName != "" {
		h.Set("Content-Disposition", multipart.FileContentDisposition(p.Name, p.FileName))
		h.Set("Content-Type", cmp.Or(p.ContentType, "application/octet-stream"))
		return h
	}
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(p.Name)
	h.Set("Content-Disposition", `form-data; name="`+quoted+`"`)
	if p.ContentType != "" {
		h.Set("Content-Type", p.ContentType)
	}
	return h
}

func (f *framed) open() (io.ReadCloser, error) {
	var body parts
	readers := make([]io.Reader, 0, 2*len(f.parts)+1)
	for i, part := range f.parts {
		readers = append(readers, bytes.NewReader(f.frames[i]))
		if part.Stream == nil {
			readers = append(readers, bytes.NewReader(part.Body))
			continue
		}
		stream, err := part.Stream.Open()
		if err != nil {
			_ = body.Close() // the first error is the one to tell of
			return nil, err
		}
		body.streams = append(body.streams, stream)
		readers = append(readers, stream)
	}
	body.Reader = io.MultiReader(append(readers, bytes.NewReader(f.frames[len(f.parts)]))...)
	return &body, nil
}

// parts are the open parts of one delivery.
type parts struct {
	io.Reader
	streams []io.Closer
}

func (p *parts) Close() error {
	var errs []error
	for _, s := range p.streams {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}
