package sdkgrpc

import (
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc"

	"github.com/fanonce/fanonce/retry"
)

// The systems of a [retry.Target], as OpenTelemetry names them.
const (
	systemGRPC    = "grpc"
	systemConnect = "connectrpc"
)

var _ retry.RPCTransport = (*transport)(nil)

// Target implements retry.RPCTransport.
func (t *transport) Target(req *http.Request) retry.Target {
	var to retry.Target
	switch v := invocationOf(req); {
	case v != nil:
		to = v.target()
	case t.plain != nil:
		to = retry.Target{System: systemConnect, Address: req.URL.Hostname(), Port: portOf(req.URL)}
	default:
		to = (&raw{conn: t.conn}).target()
	}
	to.Method = methodOf(req.URL.Path)
	return to
}

// methodOf returns the full name of a method: the last two parts of a path, since a service over connect may have a base path.
func methodOf(path string) string {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	return strings.Join(parts[max(len(parts)-2, 0):], "/")
}

func portOf(u *url.URL) int {
	port, err := strconv.Atoi(u.Port())
	switch {
	case err == nil:
		return port
	case u.Scheme == "https":
		return 443
	default:
		return 80
	}
}

// RPCStatus implements retry.RPCTransport.
func (t *transport) RPCStatus(to retry.Target, a retry.Answer) string {
	number, err := strconv.ParseInt(a.Header.Get(headerStatus), 10, 32)
	if err != nil && t.plain != nil && a.Status/100 != 2 { // an answer over HTTP
		s, ok := readConnect(a.Body)
		if !ok {
			return "" // of a proxy
		}
		number, err = int64(s.GetCode()), nil
	}
	switch {
	case to.System == systemConnect && err != nil:
		return "" // connect has no code of success
	case to.System == systemConnect:
		return connect.Code(number).String() //nolint:gosec // codes are small
	case err != nil:
		return code.Code_OK.String()
	default:
		return code.Code(number).String()
	}
}

func (r *raw) target() retry.Target { return targetOf(r.conn) }

// targetOf returns where a connection goes. Of a connection of another kind than grpc-go's that is not known.
func targetOf(conn grpc.ClientConnInterface) retry.Target {
	to := retry.Target{System: systemGRPC}
	if c, ok := conn.(interface{ Target() string }); ok {
		to.Address, to.Port = splitTarget(c.Target())
	}
	return to
}

// splitTarget returns the address and the port in the target that a connection was dialed with. It is one of gRPC's names:
// "payments:443", "dns://resolver/payments:443", "unix:///run/payments.sock". Any other one, such as that of several
// servers, is an address as a whole.
func splitTarget(target string) (address string, port int) {
	endpoint := target
	scheme, rest, _ := strings.Cut(target, ":")
	switch scheme {
	case "unix":
		return strings.TrimPrefix(rest, "//"), 0
	case "dns", "passthrough":
		if after, ok := strings.CutPrefix(rest, "//"); ok {
			_, endpoint, _ = strings.Cut(after, "/")
		} else if _, err := strconv.Atoi(rest); err != nil { // else it is the port of a host with that name
			endpoint = rest
		}
	default:
	}
	host, text, err := net.SplitHostPort(endpoint)
	if number, failed := strconv.Atoi(text); err == nil && failed == nil {
		return host, number
	}
	if strings.Contains(endpoint, ":") {
		return target, 0
	}
	return endpoint, 0
}
