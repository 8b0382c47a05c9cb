package main

import (
	_ "embed" // for the condition
	"fmt"
	"strings"
	"text/template"
)

// condition is one statement around a step. It looks where Migrate looks.
//
//go:embed condition.sql.tmpl
var conditionText string

var condition = template.Must(template.New("condition").Parse(conditionText))

// block puts the condition around one direction of a step.
func (s step) block(schema string, up bool) (string, error) {
	sql := s.down
	if up {
		sql = s.up
	}
	var text strings.Builder
	err := condition.Execute(&text, map[string]any{
		"Package": s.of.name, "Component": s.of.tables, "Version": s.version, "Before": s.version - 1, "Schema": schema, "Up": up,
		"SQL": strings.TrimSpace(sql),
	})
	return text.String(), err
}

// A file is one file of a tool.
type file struct{ name, text string }

// A form writes a step as the files of a tool. The number is the step's among the tool's files, and title begins its names.
type form func(number int64, title, head, warning, up, down string) []file

var toolNames = []string{"tern", "goose", "golang-migrate"}

var forms = map[string]form{"tern": tern, "goose": goose, "golang-migrate": golangMigrate}

// tern takes a file for both directions, which is a template.
func tern(number int64, title, head, warning, up, down string) []file {
	text := head + warning + "\n" + up + "\n---- create above / drop below ----\n\n" + down
	return []file{{fmt.Sprintf("%03d_%s.sql", number, title), strings.ReplaceAll(text, "{{", "{{`{{`}}")}}
}

// goose takes a file for both directions. Without markers goose cuts the text at its semicolons.
func goose(number int64, title, head, warning, up, down string) []file {
	const begin, end = "-- +goose StatementBegin\n", "-- +goose StatementEnd\n"
	return []file{{
		fmt.Sprintf("%05d_%s.sql", number, title),
		head + warning + "\n-- +goose Up\n" + begin + up + end + "\n-- +goose Down\n" + begin + down + end,
	}}
}

// golangMigrate takes a file for each direction.
func golangMigrate(number int64, title, head, warning, up, down string) []file {
	return []file{
		{fmt.Sprintf("%06d_%s.up.sql", number, title), head + "\n" + up},
		{fmt.Sprintf("%06d_%s.down.sql", number, title), head + warning + "\n" + down},
	}
}

// files are the steps in the form of the tool.
func (o options) files() ([]file, error) {
	steps, err := o.steps()
	if err != nil {
		return nil, err
	}
	var all []file
	for i, s := range steps {
		up, err := s.block(o.schema, true)
		if err != nil {
			return nil, err
		}
		down, err := s.block(o.schema, false)
		if err != nil {
			return nil, err
		}
		title := "fanonce_" + s.of.name + "_" + s.name
		all = append(all, forms[o.tool](o.first+int64(i), title, s.head(o.tool), s.warning(), up, down)...)
	}
	return all, nil
}

// head is the top of a file.
func (s step) head(tool string) string {
	return fmt.Sprintf(`-- Step %d of %s, for %s. Made by github.com/fanonce/fanonce/examples/migrations: do not edit.
-- The step does nothing where it was taken before, by this file or by %[2]s.Migrate.
`, s.version, s.of.name, tool)
}

// warning says what the way back destroys: the comment at the top of the step's own file.
func (s step) warning() string {
	text := "--\n-- DOWN DESTROYS DATA:\n"
	for line := range strings.Lines(s.down) {
		if !strings.HasPrefix(line, "--") {
			break
		}
		text += line
	}
	return text
}
