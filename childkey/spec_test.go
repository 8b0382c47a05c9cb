package childkey_test

import (
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
)

// What the tests put around the programs of SPEC.md: each reads lines of
// fields in hex (scheme, encoding, arguments), and prints a key for each.
const (
	pythonMain = `
import sys
for line in sys.stdin:
    scheme, encoding, *args = [bytes.fromhex(x) for x in line.rstrip("\n").split(" ")]
    scheme, encoding = scheme.decode(), encoding.decode()
    text = lambda n: [a.decode() for a in args[:n]]
    if scheme == "v1":
        print(encode(encoding, child(*text(3), *args[3:])))
    elif scheme == "hmac":
        print(encode(encoding, keyed(text(1)[0], args[1], *[a.decode() for a in args[2:5]], *args[5:])))
    elif scheme == "parent":
        print(encode(encoding, parent(*text(1), *args[1:])))
    elif scheme == "hop":
        print(encode(encoding, hop(*text(3))))
    else:
        print(legacy(*text(3)))
`
	javascriptMain = `
for (const line of require("node:fs").readFileSync(0, "utf8").replace(/\n$/, "").split("\n")) {
  const [scheme, encoding, ...args] = line.split(" ").map((x) => Buffer.from(x, "hex"));
  const text = (from, to) => args.slice(from, to).map(String);
  switch (String(scheme)) {
    case "v1": console.log(encode(String(encoding), child(...text(0, 3), ...args.slice(3)))); break;
    case "hmac": console.log(encode(String(encoding), keyed(String(args[0]), args[1], ...text(2, 5), ...args.slice(5)))); break;
    case "parent": console.log(encode(String(encoding), parent(String(args[0]), ...args.slice(1)))); break;
    case "hop": console.log(encode(String(encoding), hop(...text(0, 3)))); break;
    default: console.log(legacy(...text(0, 3)));
  }
}
`
	javaMain = `
final class Main {
    public static void main(String[] none) throws Exception {
        var in = new java.io.BufferedReader(new java.io.InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            var f = Arrays.stream(line.split(" ", -1)).map(HexFormat.of()::parseHex).toArray(byte[][]::new);
            var t = Arrays.stream(f).map(b -> new String(b, StandardCharsets.UTF_8)).toArray(String[]::new);
            System.out.println(switch (t[0]) {
                case "v1" -> ChildKey.encode(t[1], ChildKey.child(t[2], t[3], t[4], Arrays.copyOfRange(f, 5, f.length)));
                case "hmac" -> ChildKey.encode(t[1], ChildKey.keyed(t[2], f[3], t[4], t[5], t[6], Arrays.copyOfRange(f, 7, f.length)));
                case "parent" -> ChildKey.encode(t[1], ChildKey.parent(t[2], Arrays.copyOfRange(f, 3, f.length)));
                case "hop" -> ChildKey.encode(t[1], ChildKey.hop(t[2], t[3], t[4]));
                default -> ChildKey.legacy(t[2], t[3], t[4]);
            });
        }
    }
}

`
)

// TestSpec runs the programs of SPEC.md against the vectors.
func TestSpec(t *testing.T) {
	t.Parallel()
	tests := []struct {
		language, file string
		command        []string
		program        func(snippet string) string
	}{
		{"python", "spec.py", []string{"python3"}, func(s string) string { return s + pythonMain }},
		{"javascript", "spec.js", []string{"node"}, func(s string) string { return s + javascriptMain }},
		// Java runs the first class of a file, and has imports before it.
		{"java", "Main.java", []string{"java", "-XX:TieredStopAtLevel=1"}, func(s string) string {
			return strings.Replace(s, "final class ChildKey", javaMain+"final class ChildKey", 1)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.language, func(t *testing.T) {
			t.Parallel()
			snippet := specSnippet(t, tt.language)
			if _, err := exec.LookPath(tt.command[0]); err != nil {
				t.Skipf("the %s program of SPEC.md was not run: %v", tt.language, err)
			}
			file := filepath.Join(t.TempDir(), tt.file)
			require.NoError(t, os.WriteFile(file, []byte(tt.program(snippet)), 0o600))
			input, want := specLines(t)
			got := run(t, input, append(tt.command, file)...)
			require.Equal(t, want, got)
		})
	}
}

// specSnippet returns the code block of SPEC.md in language.
func specSnippet(t *testing.T, language string) string {
	t.Helper()
	spec, err := os.ReadFile("SPEC.md")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(spec), "\n```"+language+"\n")
	require.True(t, ok, "SPEC.md has no %s program", language)
	snippet, _, ok := strings.Cut(rest, "```\n")
	require.True(t, ok)
	return snippet
}

// specLines returns a line of input and a line of output for each text of each
// vector.
func specLines(t *testing.T) (input string, output []string) {
	t.Helper()
	var lines []string
	for _, v := range readVectors(t) {
		args := []string{v.Parent, v.Service, v.Operation}
		switch v.Scheme {
		case "hmac":
			args = slices.Concat([]string{v.KeyID, string(v.Secret)}, args)
		case "parent":
			args = []string{v.Namespace}
		case "hop":
			args = []string{v.Scope, v.Namespace, v.Key}
		}
		args = slices.Concat(args, texts(v.Discriminators), texts(v.Parts))
		for _, e := range childkey.Encodings() {
			text, ok := v.want()[e]
			if !ok {
				continue
			}
			var fields []string
			for _, arg := range append([]string{v.Scheme, e.String()}, args...) {
				fields = append(fields, hex.EncodeToString([]byte(arg)))
			}
			lines, output = append(lines, strings.Join(fields, " ")), append(output, text)
		}
	}
	return strings.Join(lines, "\n") + "\n", output
}

func run(t *testing.T, input string, command ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Stdin = strings.NewReader(input)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s", &stderr)
	return strings.Fields(string(out))
}
