package natstest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// settings are what a server's process is told in its environment.
const settings = "NATSTEST_NODE"

// A node is the settings of one server.
type node struct {
	Name       string
	Dir        string
	Port       int
	Cluster    int   // the port for the other servers; 0: it is alone
	Routes     []int // the Cluster ports of all servers
	SyncAlways bool
	MaxPayload int32
}

// The user names and passwords of a server. APP is the account for tests, SYS the system account.
const (
	appUser    = "app"
	systemUser = "sys"
	password   = "natstest"
)

// Main runs a server if this process was started for that, and does not return then. A test's TestMain, or the main of
// a command, calls it before anything else.
func Main() {
	told := os.Getenv(settings)
	if told == "" {
		return
	}
	letTrace()
	if err := serve(told); err != nil {
		fmt.Fprintln(os.Stderr, "natstest:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve runs a server until standard input ends: its other end is the process that started the server.
func serve(told string) error {
	var n node
	if err := json.Unmarshal([]byte(told), &n); err != nil {
		return err
	}
	o, err := n.options()
	if err != nil {
		return err
	}
	s, err := server.NewServer(o)
	if err != nil {
		return err
	}
	if os.Getenv("NATSTEST_LOG") != "" {
		s.ConfigureLogger()
	}
	s.Start()
	if !s.ReadyForConnections(30 * time.Second) {
		return fmt.Errorf("%s is not ready after 30 s", n.Name)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}

// options are those of a configuration file, as an operator would write it.
func (n node) options() (*server.Options, error) {
	sync := "2m" // the default of nats-server
	if n.SyncAlways {
		sync = "always"
	}
	text := fmt.Sprintf(`
server_name: %q
listen: "127.0.0.1:%d"
jetstream { store_dir: %q, sync_interval: %s }
accounts {
	APP { jetstream: enabled, users: [{user: %s, password: %s}] }
	SYS { users: [{user: %s, password: %s}] }
}
system_account: SYS
`, n.Name, n.Port, n.Dir, sync, appUser, password, systemUser, password)
	if n.MaxPayload > 0 {
		text += fmt.Sprintf("max_payload: %d\n", n.MaxPayload)
	}
	if n.Cluster > 0 {
		var routes []string
		for _, port := range n.Routes {
			routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", port))
		}
		text += fmt.Sprintf("cluster { name: natstest, listen: \"127.0.0.1:%d\", routes: [%s] }\n", n.Cluster, strings.Join(routes, ", "))
	}
	file := n.Dir + ".conf"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	o, err := server.ProcessConfigFile(file)
	if err != nil {
		return nil, err
	}
	o.NoSigs, o.NoLog, o.LogFile = true, os.Getenv("NATSTEST_LOG") == "", n.Dir+".log"
	return o, nil
}

func (n node) url(user string) string {
	u := url.URL{Scheme: "nats", User: url.UserPassword(user, password), Host: fmt.Sprintf("127.0.0.1:%d", n.Port)}
	return u.String()
}
