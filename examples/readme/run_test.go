package readme_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/internal/blackboxtest"
	"github.com/fanonce/fanonce/server/pgtest"
)

// The README's guarded handler gives the second request the first one's answer.
func TestGuarded(t *testing.T) {
	t.Parallel()
	database := startPostgres(t)
	address := blackboxtest.FreeAddress(t)
	bin := build(t, map[string]string{"localhost:8070": address}, "guarded")
	p := start(t, bin("guarded"), address, database)
	ask := func(key string) (status int, replayed, body string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/orders", strings.NewReader(`{"SKU":"tea"}`))
		require.NoError(t, err)
		req.Header.Set("Idempotency-Key", key)
		req.Header.Set("X-Tenant", "acme")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, resp.Header.Get("Idempotent-Replayed"), string(text)
	}
	status, replayed, first := ask("order-1")
	require.Equal(t, "200 false", fmt.Sprint(status, " ", replayed))
	status, replayed, second := ask("order-1")
	require.Equal(t, "200 true", fmt.Sprint(status, " ", replayed))
	require.Equal(t, first, second)
	require.Equal(t, http.StatusOK, blackboxtest.Status(t.Context(), "http://"+address+"/readyz"))
	p.Signal(syscall.SIGTERM)
	require.NoError(t, p.Wait(), "a stop is no failure")
}

// startPostgres starts a server with the tables of the README's services, and returns its variable.
func startPostgres(t *testing.T) (variable string) {
	t.Helper()
	cluster, err := pgtest.Start(t.Context(), pgtest.Config{Private: true, Durable: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	schema, err := os.ReadFile("schema.sql")
	require.NoError(t, err)
	conn, err := pgx.Connect(t.Context(), cluster.URL("postgres"))
	require.NoError(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), string(schema))
	require.NoError(t, err)
	return "DATABASE_URL=" + cluster.URL("postgres")
}

// countHolds counts the reservations in the database of the variable.
func countHolds(t *testing.T, variable string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), strings.TrimPrefix(variable, "DATABASE_URL="))
	require.NoError(t, err)
	defer conn.Close(t.Context())
	require.NoError(t, conn.QueryRow(t.Context(), "select count(*) from holds").Scan(&n))
	return n
}

// A new user goes through the README from top to bottom: a handler on Postgres, a call, a
// checkout with two downstreams, a saga that is undone, and a stuck key.
func TestNewUser(t *testing.T) {
	t.Parallel()
	database := startPostgres(t)
	inventory, payment, shop := blackboxtest.FreeAddress(t), blackboxtest.FreeAddress(t), blackboxtest.FreeAddress(t)
	bin := build(t, map[string]string{"localhost:8080": inventory, "localhost:8081": payment, "localhost:8090": shop},
		"inventory", "call", "payment", "checkout", "sagas", "stuck")
	holds := func() int { return countHolds(t, database) }
	run := func(name string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), bin(name), args...)
		cmd.Env = append(os.Environ(), database)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	start(t, bin("inventory"), inventory, database)
	first := curl(t, inventory, "/reservations", "order-1", `{"SKU":"tea"}`)
	require.Contains(t, first, "Idempotent-Replayed: false")
	again := curl(t, inventory, "/reservations", "order-1", `{"SKU":"tea"}`)
	require.Contains(t, again, "Idempotent-Replayed: true")
	require.Equal(t, lastLine(first), lastLine(again))

	require.Equal(t, "{2} <nil>\n", run("call"))
	require.Equal(t, "{2} <nil>\n", run("call"))
	require.Equal(t, 2, holds())

	start(t, bin("checkout"), shop)
	order := func() string {
		return curl(t, shop, "/orders", "order-8", `{"Line":{"SKU":"gap"},"Payment":{"Cents":1300}}`)
	}
	stop := notFound(t, payment)
	require.True(t, strings.HasPrefix(order(), "HTTP/1.1 422 "), "the gateway refused, so the reservation is undone")
	stop()
	start(t, bin("payment"), payment, database)
	require.True(t, strings.HasPrefix(order(), "HTTP/1.1 422 "), "the answer is stored")
	require.Equal(t, 2, holds())

	placed := curl(t, shop, "/orders", "order-3", `{"Line":{"SKU":"tea"},"Payment":{"Cents":1300}}`)
	require.Contains(t, lastLine(placed), "receipt-")
	require.Equal(t, lastLine(placed), lastLine(curl(t, shop, "/orders", "order-3", `{"Line":{"SKU":"tea"},"Payment":{"Cents":1300}}`)))
	require.Equal(t, 3, holds())
	declined := curl(t, shop, "/orders", "order-4", `{"Line":{"SKU":"tea"},"Payment":{"Cents":13}}`)
	require.True(t, strings.HasPrefix(declined, "HTTP/1.1 402 "), declined)
	require.Contains(t, declined, "card-declined")
	require.Equal(t, 3, holds(), "the reservation of the declined order is deleted")

	receipt := run("sagas", "order-5", "1300")
	require.Contains(t, receipt, "receipt-")
	require.Equal(t, receipt, run("sagas", "order-5", "1300"))
	require.Equal(t, 4, holds())
	require.Contains(t, run("sagas", "order-6", "13"), "compensated")
	require.Equal(t, 4, holds())

	charge := func() string { return curl(t, payment, "/charges", "order-7", `{"Cents":500}`) }
	require.True(t, strings.HasPrefix(charge(), "HTTP/1.1 500 "))
	require.Contains(t, charge(), "Idempotency-Code: outcome-unknown")
	id := regexp.MustCompile(`[0-9a-f-]{36}`).FindString(run("stuck"))
	require.NotEmpty(t, id)
	require.Contains(t, charge(), "Idempotency-Code: outcome-unknown", "a list changes nothing")
	run("stuck", id)
	require.Contains(t, lastLine(charge()), "receipt-")
	require.Empty(t, run("stuck"))
}

// build compiles commands of this folder, each string of replace replaced in their files:
// the README's ports are fixed, and a test takes free ones.
func build(t *testing.T, replace map[string]string, names ...string) (bin func(name string) string) {
	t.Helper()
	dir := t.TempDir()
	overlay := make(map[string]string)
	args := []string{"build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", dir + string(filepath.Separator)}
	for _, name := range names {
		file, err := filepath.Abs(filepath.Join(name, "main.go"))
		require.NoError(t, err)
		code, err := os.ReadFile(file)
		require.NoError(t, err)
		text := string(code)
		for old := range maps.Keys(replace) {
			text = strings.ReplaceAll(text, old, replace[old])
		}
		require.NotContains(t, text, "localhost:")
		overlay[file] = filepath.Join(dir, name+".go")
		require.NoError(t, os.WriteFile(overlay[file], []byte(text), 0o600))
		args = append(args, "./"+name)
	}
	list, err := json.Marshal(map[string]any{"Replace": overlay})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), list, 0o600))
	out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
	require.NoError(t, err, string(out))
	return func(name string) string {
		found, err := exec.LookPath(filepath.Join(dir, name))
		require.NoError(t, err)
		return found
	}
}

// notFound answers 404 at address until stop is called, as a gateway does whose service is being deployed.
func notFound(t *testing.T, address string) (stop func()) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	require.NoError(t, err)
	web := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }()
	return func() {
		require.NoError(t, web.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	}
}

// start runs a service until the test ends, and waits until it listens at address.
func start(t *testing.T, bin, address string, env ...string) *blackboxtest.Process {
	t.Helper()
	p := blackboxtest.StartBinary(t, bin, env...)
	require.Eventually(t, func() bool {
		require.True(t, p.Running(), bin)
		conn, err := net.Dial("tcp", address)
		if err == nil {
			err = conn.Close()
		}
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	return p
}

// curl sends the request of curl -i --json, and returns the same output: the response
// as it is on the wire.
func curl(t *testing.T, address, path, key, body string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, strings.Join([]string{
		"POST " + path + " HTTP/1.1", "Host: " + address, "Connection: close", "Idempotency-Key: " + key,
		"Content-Type: application/json", "Content-Length: " + strconv.Itoa(len(body)), "", body,
	}, "\r\n"))
	require.NoError(t, err)
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	text := strings.ReplaceAll(string(answer), "\r\n", "\n")
	text = strings.Replace(text, "Connection: close\n", "", 1) // the only difference to curl's connection
	return strings.TrimSuffix(text, "\n") + "\n"
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
