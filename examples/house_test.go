// Package examples_test checks how the house is built: which package may import
// which, and what lies where.
package examples_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/fanonce/fanonce"

const (
	pgx           = "github.com/jackc/pgx/v5"
	retryablehttp = "github.com/hashicorp/go-retryablehttp"
	uuid          = "github.com/google/uuid"
	testify       = "github.com/stretchr/testify"
)

// rooms divides the house. A package is in the room with the longest folder that it lies
// in, and may import the standard library, its own room, and what the room may: other rooms,
// by their folder, and modules.
var rooms = []struct {
	folder string
	may    []string
}{
	{"childkey", []string{uuid}},
	{"retry", []string{"childkey", "internal/errtext", retryablehttp}},
	{"sdk", []string{"childkey", "retry", "internal/errtext"}},
	{"saga", []string{"childkey", "retry", "sdk", "saga/journal", "saga/internal/engine", "saga/internal/graph", "internal/errtext"}},
	{"saga/internal/graph", []string{"childkey", "retry", "sdk", "saga/journal", "internal/errtext"}},
	{"saga/internal/engine", []string{"childkey", "retry", "sdk", "saga/journal", "saga/internal/graph", "internal/errtext"}},
	{"saga/journal", []string{"childkey", "retry"}},
	{"saga/gauges", []string{"saga/journal", "internal/monitor"}},
	{"saga/memjournal", []string{"childkey", "retry", "saga/journal"}},
	{"saga/sagatest", []string{"childkey", "retry", "sdk", "saga", "saga/journal", "saga/memjournal"}},
	{"saga/pgjournal", []string{"childkey", "retry", "sdk", "saga", "saga/journal", "internal/errtext", "internal/pgkit", "internal/pgkit/component", pgx}},
	{"server", []string{"childkey", "server/store", "server/internal/engine", "server/internal/record"}},
	{"server/store", []string{"childkey", "server/internal/runctx"}},
	{"server/internal/engine", []string{"childkey", "server/store", "server/internal/record", "server/internal/runctx"}},
	{"server/gauges", []string{"server/store", "internal/monitor"}},
	{"server/internal/record", []string{"childkey", "server/store"}},
	{"server/internal/runctx", nil},
	{"server/inbox", []string{"childkey", "server", "server/store"}},
	{"server/console", []string{"childkey", "retry", "saga", "saga/journal", "server", "server/store"}},
	{"server/memstore", []string{"server/store"}},
	{"server/servertest", []string{"server/store"}},
	{"server/adaptertest", []string{"childkey", "server", "server/store", "server/memstore"}},
	{"server/servertest/wire", []string{"childkey"}}, // asks over HTTP alone: the service can be in any language
	{"internal/answertest", []string{"childkey", "retry"}},
	{"internal/benchkit", nil},
	{"internal/errtext", nil},
	{"internal/monitor", nil},
	{"internal/npmtest", nil},
	{"internal/pgkit", []string{pgx}}, // not its component, which stands on it
	{"internal/pgkit/component", []string{"internal/pgkit", pgx}},
	{"internal/pgkittest", []string{"server/pgtest", pgx}},
	{"server/pgstore", []string{"childkey", "server/store", "server/internal/record", "internal/errtext", "internal/pgkit", "internal/pgkit/component", pgx}},
	{"server/pgtest", []string{pgx}},
	// The examples show the library as its users have it: without its internal packages.
	{"examples", []string{
		"childkey", "retry", "sdk", "saga", "saga/journal", "saga/memjournal", "saga/pgjournal", "server", "server/console", "server/memstore",
		"server/store", "server/pgstore", "server/pgtest", pgx, uuid,
	}},
}

// A listing is what go list says about one package.
type listing struct {
	ImportPath, Name, Doc string
	Imports               []string
	GoFiles               []string
}

// list returns the packages of the root module, without their tests.
func list(t *testing.T) []listing {
	t.Helper()
	// -e: a package that does not build is for the compiler to report.
	out := golang(t, "list", "-e", "-json=ImportPath,Name,Doc,Imports,GoFiles", "./...")
	var packages []listing
	decoder := json.NewDecoder(bytes.NewReader(out))
	for {
		var p listing
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(p.GoFiles) > 0 { // else tests only
			packages = append(packages, p)
		}
	}
	if len(packages) == 0 {
		t.Fatal("go list found no packages")
	}
	return packages
}

// golang runs the go command in the root of the module.
func golang(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = ".."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return out
}

func TestHouse_packagesImportWhatTheirRoomAllows(t *testing.T) {
	t.Parallel()
	for _, p := range list(t) {
		room := roomOf(p.ImportPath)
		if room < 0 {
			t.Errorf("package %s lies in no room of the house", p.ImportPath)
			continue
		}
		for _, imported := range p.Imports {
			if !allowed(room, imported) {
				t.Errorf("package %s imports %s; %s may import the standard library, itself and %v",
					p.ImportPath, imported, rooms[room].folder, rooms[room].may)
			}
		}
	}
}

// A nested module has a version of its own, so the internal packages of the root module may be older or newer than it.
func TestHouse_nestedModulesImportNothingInternal(t *testing.T) {
	t.Parallel()
	nested := 0
	err := filepath.WalkDir("..", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "go.mod" || file == filepath.Join("..", "go.mod") {
			return err
		}
		nested++
		cmd := exec.Command("go", "list", "-e", "-f", `{{$p := .ImportPath}}{{range .Imports}}{{$p}} {{.}}{{"\n"}}{{end}}`, "./...")
		cmd.Dir = filepath.Dir(file)
		own := module + strings.TrimPrefix(filepath.ToSlash(cmd.Dir), "..")
		out, err := cmd.Output()
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(out)) {
			importer, imported, _ := strings.Cut(strings.TrimSpace(line), " ")
			foreign := within(imported, module) && !within(imported, own) && strings.Contains(imported, "/internal")
			if foreign && !strings.HasSuffix(own, "/bench") { // a benchmark is no module of a user
				t.Errorf("package %s imports %s", importer, imported)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if nested == 0 {
		t.Error("there are no nested modules")
	}
}

// roomOf returns the index of the room that a package is in, or -1.
func roomOf(importPath string) int {
	found := -1
	for i, room := range rooms {
		if within(importPath, module+"/"+room.folder) && (found < 0 || len(room.folder) > len(rooms[found].folder)) {
			found = i
		}
	}
	return found
}

func within(importPath, parent string) bool {
	return importPath == parent || strings.HasPrefix(importPath, parent+"/")
}

func allowed(room int, imported string) bool {
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		return true // the standard library
	}
	if other := roomOf(imported); other >= 0 {
		return other == room || slices.Contains(rooms[room].may, rooms[other].folder)
	}
	return slices.ContainsFunc(rooms[room].may, func(name string) bool { return within(imported, name) })
}

// never lists, for folders of the house, the packages that no package in them links, not even
// through another package.
var never = []struct{ folder, pkg, why string }{
	{"childkey", "net/http", "both sides import it, and stores and journals that speak no HTTP"},
	{"server/console", pgx, "it shows any store and journal, and a service may have no Postgres"},
}

func TestHouse_packagesLinkNothingTheirRoomMustNotKnow(t *testing.T) {
	t.Parallel()
	for _, rule := range never {
		deps := strings.Fields(string(golang(t, "list", "-deps", "./"+rule.folder+"/...")))
		if !slices.Contains(deps, module+"/"+rule.folder) {
			t.Errorf("go list -deps ./%s/... does not list the folder itself: %v", rule.folder, deps)
		}
		if slices.Contains(deps, rule.pkg) {
			t.Errorf("%s/... links %s: %s", rule.folder, rule.pkg, rule.why)
		}
	}
}

// The engine and the stores are below the guard: they link neither the guard nor HTTP, not
// even through others.
func TestHouse_engineAndStoresLinkNeitherGuardNorHTTP(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{
		"server/internal/engine", "server/store", "server/internal/record", "server/memstore", "server/pgstore", "server/servertest",
	} {
		for _, dep := range strings.Fields(string(golang(t, "list", "-deps", "./"+folder))) {
			if dep == module+"/server" || dep == "net/http" {
				t.Errorf("package %s links %s", folder, dep)
			}
		}
	}
}

func TestHouse_testHelpersReachNoUsersBinary(t *testing.T) {
	t.Parallel()
	for _, p := range list(t) {
		for _, imported := range p.Imports {
			if within(imported, testify) {
				t.Errorf("package %s imports %s outside its tests", p.ImportPath, imported)
			}
			if imported == "testing" && !strings.HasSuffix(p.Name, "test") {
				t.Errorf("package %s imports testing; only packages called …test may", p.ImportPath)
			}
		}
	}
}

func TestHouse_everyPackageSaysWhatItIsFor(t *testing.T) {
	t.Parallel()
	for _, p := range list(t) {
		if p.Doc == "" {
			t.Errorf("package %s has no doc comment", p.ImportPath)
		}
		switch path.Base(p.ImportPath) {
		case "util", "utils", "common", "types", "models", "helpers", "misc":
			t.Errorf("package %s is named for nothing in particular", p.ImportPath)
		}
	}
}

func TestHouse_topLevelHoldsNothingElse(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"LICENSE", "README.md", "childkey", "examples", "go.mod", "go.sum", "internal", "retry", "saga", "sdk", "server", "test.sh"}
	for _, entry := range entries {
		name := entry.Name()
		if strings.HasPrefix(name, ".") || slices.Contains([]string{".out", ".prof", ".test"}, path.Ext(name)) {
			continue // what .gitignore leaves out
		}
		if !slices.Contains(want, name) {
			t.Errorf("the top level holds %s, want nothing but %v and dotfiles", name, want)
		}
	}
}

// A goMod is the part of go.mod that the house has rules for.
type goMod struct {
	Module  struct{ Path string }
	Go      string
	Require []struct {
		Path     string
		Indirect bool
	}
	Replace []struct {
		Old, New struct{ Path string }
	}
}

func readGoMod(t *testing.T, file string) goMod {
	t.Helper()
	var mod goMod
	if err := json.Unmarshal(golang(t, "mod", "edit", "-json", file), &mod); err != nil {
		t.Fatal(err)
	}
	return mod
}

func TestHouse_rootModuleRequiresLittle(t *testing.T) {
	t.Parallel()
	mod := readGoMod(t, "go.mod")
	if mod.Go != "1.25.0" && mod.Go != "1.25" {
		t.Errorf("go directive = %s, want 1.25: a later one shuts users out", mod.Go)
	}
	if len(mod.Replace) > 0 {
		t.Errorf("go.mod replaces %v, want nothing: users would not get it", mod.Replace)
	}
	for _, required := range mod.Require {
		if !required.Indirect && !slices.Contains([]string{pgx, retryablehttp, uuid, testify}, required.Path) {
			t.Errorf("go.mod requires %s, want pgx, go-retryablehttp, uuid and testify only", required.Path)
		}
	}
}

// mostNested is how many go.mod files there are below the root. An example of other people's modules belongs in
// examples/integrations.
const mostNested = 15

func TestHouse_nestedModulesUseThisTree(t *testing.T) {
	t.Parallel()
	files := nestedModules(t)
	if len(files) > mostNested {
		t.Errorf("%d nested modules, want at most %d: %v", len(files), mostNested, files)
	}
	for _, file := range files {
		mod := readGoMod(t, file)
		folder := path.Dir(file)
		if want := path.Join(module, folder); mod.Module.Path != want {
			t.Errorf("%s: module %s, want %s", file, mod.Module.Path, want)
		}
		up := strings.TrimSuffix(strings.Repeat("../", strings.Count(folder, "/")+1), "/")
		if !slices.ContainsFunc(mod.Replace, func(r struct{ Old, New struct{ Path string } }) bool {
			return r.Old.Path == module && strings.TrimSuffix(r.New.Path, "/") == up
		}) {
			t.Errorf("%s: want replace %s => %s", file, module, up)
		}
	}
}

// pkg.go.dev shows the README of a module, and users can get the modules that have a tag.
func TestHouse_nestedModulesAreReleased(t *testing.T) {
	t.Parallel()
	release, err := os.ReadFile("../.ci/release")
	if err != nil {
		t.Fatal(err)
	}
	tagged := strings.FieldsFunc(string(release), func(r rune) bool { return strings.ContainsRune(" \t\n\"=", r) })
	for _, file := range nestedModules(t) {
		folder := path.Dir(file)
		if _, err := os.Stat(path.Join("..", folder, "README.md")); err != nil {
			t.Error(err)
		}
		isForUsers := !within(folder, "examples") && !slices.Contains([]string{"bench", "browsertest"}, path.Base(folder))
		if got := slices.Contains(tagged, folder); got != isForUsers {
			t.Errorf(".ci/release tags %s: %v, want %v", folder, got, isForUsers)
		}
	}
}

// nestedModules returns the go.mod files below the root, relative to it.
func nestedModules(t *testing.T) []string {
	t.Helper()
	var files []string
	root := os.DirFS("..")
	err := fs.WalkDir(root, ".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata"):
			return fs.SkipDir
		case filepath.Base(file) == "go.mod" && file != "go.mod":
			files = append(files, file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// foreign are modules that only adapters need. No user of the core has one of them.
var foreign = []string{
	"google.golang.org/grpc", "connectrpc.com/connect", "google.golang.org/protobuf", "github.com/gin-gonic/gin", "go.opentelemetry.io/otel",
	"github.com/prometheus/client_golang", "github.com/nats-io/nats.go", "github.com/twmb/franz-go", "github.com/segmentio/kafka-go",
	"github.com/IBM/sarama", "github.com/rabbitmq/amqp091-go", "github.com/redis/go-redis",
}

// foreignWords are in the paths of such modules, whoever has made them.
var foreignWords = []string{"grpc", "connectrpc", "gin-gonic", "opentelemetry", "prometheus", "nats", "kafka", "amqp", "redis"}

const mostModules = 20 // in the list of a user of the core, besides the user's own

// The core's users see its modules in go list -m all, and in every scanner. Each toy imports a
// part of the core, as a user's module does.
func TestHouse_usersListFewModules(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, imports := range [][]string{
		{"childkey"}, {"retry"}, {"sdk"}, {"saga"}, {"server", "server/pgstore"},
	} {
		t.Run(strings.Join(imports, "+"), func(t *testing.T) {
			t.Parallel()
			modules := modulesOf(t, root, imports)
			if !slices.Contains(modules, module) {
				t.Fatalf("go list -m all = %v, want %s in it", modules, module)
			}
			if len(modules) > mostModules {
				t.Errorf("go list -m all names %d modules, want at most %d: %v", len(modules), mostModules, modules)
			}
			for _, name := range modules {
				if isForeign(name) {
					t.Errorf("go list -m all names %s, which belongs in a nested module", name)
				}
			}
		})
	}
}

func TestIsForeign(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"google.golang.org/grpc": true, "go.opentelemetry.io/otel/trace": true, "github.com/nats-io/nats.go": true, "example.com/my-kafka": true,
		"github.com/redis/go-redis/v9": true, pgx: false, retryablehttp: false, "golang.org/x/text": false,
	} {
		if got := isForeign(name); got != want {
			t.Errorf("isForeign(%q) = %v, want %v", name, got, want)
		}
	}
}

func isForeign(name string) bool {
	return slices.ContainsFunc(foreign, func(other string) bool { return within(name, other) }) ||
		slices.ContainsFunc(foreignWords, func(word string) bool { return strings.Contains(strings.ToLower(name), word) })
}

// modulesOf returns what go list -m all names in a new module that imports these packages.
func modulesOf(t *testing.T, root string, imports []string) []string {
	t.Helper()
	dir := t.TempDir()
	var file strings.Builder
	file.WriteString("package main\n\n")
	for _, folder := range imports {
		file.WriteString("import _ \"" + module + "/" + folder + "\"\n")
	}
	file.WriteString("\nfunc main() {}\n")
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"main.go": file.String(),
		"go.mod":  "module toy\n\ngo 1.25.0\n\nrequire " + module + " v0.0.0\n\nreplace " + module + " => " + root + "\n",
		"go.sum":  string(sum), // what a go get would write
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	goList(t, dir, "-mod=mod", "-deps", ".") // writes into go.mod what the imports need
	modules := strings.Fields(goList(t, dir, "-mod=mod", "-m", "-f", "{{.Path}}", "all"))
	return slices.DeleteFunc(modules, func(name string) bool { return name == "toy" })
}

// goList returns what go list prints in the folder of a module.
func goList(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %v: %v\n%s", args, err, stderr.String())
	}
	return string(out)
}
