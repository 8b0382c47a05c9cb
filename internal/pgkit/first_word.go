package pgkit

import (
	"strings"
)

// endsTx has the first words of statements that begin or end a transaction. In a pipeline the statements after such
// a statement would be committed without the others.
var endsTx = map[string]bool{
	"begin": true, "start": true, "commit": true, "end": true, "rollback": true, "abort": true, "prepare": true,
}

// FirstWord returns the first word of a statement in lower case, without the comments before it.
func FirstWord(sql string) string {
	for {
		sql = strings.TrimLeft(sql, " \t\r\n\f\v;")
		switch {
		case strings.HasPrefix(sql, "--"):
			_, sql, _ = strings.Cut(sql, "\n")
		case strings.HasPrefix(sql, "/*"):
			sql = afterComment(sql)
		default:
			end := strings.IndexFunc(sql, func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') })
			if end == 0 { // as in "(select …)"
				return sql[:1]
			}
			if end < 0 {
				end = len(sql)
			}
			return strings.ToLower(sql[:end])
		}
	}
}

// afterComment returns the text after a comment, in which comments may be nested.
func afterComment(sql string) string {
	depth := 0
	for i := 0; i+1 < len(sql); i++ {
		switch sql[i : i+2] {
		case "/*":
			depth++
			i++
		case "*/":
			depth--
			i++
		}
		if depth == 0 {
			return sql[i+1:]
		}
	}
	return ""
}

// IsEnd reports whether statements with this first word, in lower case, begin or end a transaction.
func IsEnd(word string) bool { return endsTx[word] }

// EndsTransaction reports whether a user's text ends the transaction, and perhaps begins another one, as "commit and
// chain" and "commit; begin" do. The status of the connection does not show that afterwards.
func EndsTransaction(sql string) bool {
	for sql != "" {
		statement, rest := cutStatement(sql)
		if word := FirstWord(statement); endsTx[word] && !staysInside(word, statement) {
			return true
		}
		sql = rest
	}
	return false
}

// staysInside reports whether a statement with such a first word goes back to a savepoint, or prepares a statement.
func staysInside(word, statement string) bool {
	words := strings.Fields(strings.ToLower(statement[strings.Index(strings.ToLower(statement), word):]))
	switch word {
	case "rollback":
		return len(words) > 1 && (words[1] == "to" || len(words) > 2 && words[2] == "to")
	case "prepare":
		return len(words) < 2 || words[1] != "transaction"
	default:
		return false
	}
}

// cutStatement returns the text before the first semicolon between statements, and the text behind it.
func cutStatement(sql string) (statement, rest string) {
	for i := 0; i < len(sql); i++ {
		switch c := sql[i]; {
		case c == ';':
			return sql[:i], sql[i+1:]
		case c == '\'' || c == '"':
			i += quotedLength(sql[i:], i > 0 && c == '\'' && sql[i-1]|0x20 == 'e') - 1
		case strings.HasPrefix(sql[i:], "--"):
			i += strings.IndexByte(sql[i:]+"\n", '\n')
		case strings.HasPrefix(sql[i:], "/*"):
			i = len(sql) - len(afterComment(sql[i:])) - 1
		case c == '$':
			i += dollarLength(sql[i:]) - 1
		}
	}
	return sql, ""
}

// quotedLength returns the length of the quoted text at the beginning of sql. A quote in it is doubled, or is behind a
// backslash if the text has escapes.
func quotedLength(sql string, escapes bool) int {
	for i := 1; i < len(sql); i++ {
		switch {
		case escapes && sql[i] == '\\':
			i++
		case sql[i] != sql[0]:
		case i+1 < len(sql) && sql[i+1] == sql[0]:
			i++
		default:
			return i + 1
		}
	}
	return len(sql)
}

// dollarLength returns the length of the text between two tags as $body$; 1 if sql does not begin with one.
func dollarLength(sql string) int {
	end := strings.IndexByte(sql[1:], '$')
	if end < 0 {
		return 1
	}
	tag := sql[:end+2]
	if strings.ContainsFunc(tag[1:len(tag)-1], func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r|0x20 < 'a' || r|0x20 > 'z')
	}) || len(tag) > 2 && tag[1] >= '0' && tag[1] <= '9' {
		return 1 // a parameter, such as $1
	}
	close := strings.Index(sql[len(tag):], tag)
	if close < 0 {
		return len(sql)
	}
	return len(tag) + close + len(tag)
}
