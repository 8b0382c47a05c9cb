package draw

import (
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// A writer collects one picture.
type writer struct{ strings.Builder }

// open begins the element name. Attributes are pairs of a name and a value; a pair with an empty value is left out.
func (w *writer) open(name string, attributes ...string) {
	w.begin(name, attributes)
	w.WriteString(">")
}

func (w *writer) begin(name string, attributes []string) {
	w.WriteString("<" + name)
	for i := 0; i+1 < len(attributes); i += 2 {
		if attributes[i+1] != "" {
			w.WriteString(" " + attributes[i] + `="` + escape(attributes[i+1]) + `"`)
		}
	}
}

// writeEmpty writes an element without content.
func (w *writer) writeEmpty(name string, attributes ...string) {
	w.begin(name, attributes)
	w.WriteString("/>\n")
}

func (w *writer) close(name string) { w.WriteString("</" + name + ">\n") }

// text writes an element with text.
func (w *writer) text(name, text string, attributes ...string) {
	w.open(name, attributes...)
	w.WriteString(escape(text))
	w.close(name)
}

// beginPicture begins a picture. A picture in pixels has a viewBox, so that a narrower place shows all of it smaller. One
// in parts of its width has none, because its text would become smaller. Links are hidden by the role "img", so a
// picture with links is a group.
func (w *writer) beginPicture(class, width, height, viewBox, label string, links bool) {
	role := "img"
	if links {
		role = "group"
	}
	w.open("svg", "xmlns", "http://www.w3.org/2000/svg", "class", class, "width", width, "height", height, "viewBox", viewBox,
		"role", role, "aria-label", label)
	w.WriteString("\n")
}

func (w *writer) done() template.HTML {
	w.WriteString("</svg>")
	return template.HTML(w.String()) //nolint:gosec // each value went through escape
}

// escape returns text as it may stand in an element or in an attribute. A character that XML does not allow becomes U+FFFD.
func escape(text string) string {
	return html.EscapeString(strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' || r == 0xFFFE || r == 0xFFFF {
			return '�'
		}
		return r
	}, strings.ToValidUTF8(text, "�")))
}

// class returns words as the value of a class attribute: lower case, with a prefix.
func class(prefix, word string) string {
	word = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, word)
	if word == "" {
		return prefix + "none"
	}
	return prefix + word
}

func num(n int) string { return strconv.Itoa(n) }

// percent returns a part of the picture with at most one decimal place.
func percent(f float64) string { return strconv.FormatFloat(math.Round(f*1000)/10, 'f', -1, 64) + "%" }

// short returns text with at most n characters. The last one is an ellipsis if there were more.
func short(text string, n int) string {
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	return string(runes[:n-1]) + "…"
}
