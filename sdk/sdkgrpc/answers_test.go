package sdkgrpc_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/internal/answertest"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdkgrpc"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/guardgrpc/stockpb"
	"github.com/fanonce/fanonce/server/guardgrpc/stockpb/stockpbconnect"
)

const answers = "../../retry/testdata/answers.json"

// maxBytes is the limit of whoever has one. The requests and answers of the rows with a limit are longer.
const maxBytes = 100

// A scene is one play of a row of the table of answers.
type scene struct {
	answertest.Row
	// doubt: an attempt before the answer took effect, and its answer was lost. The server plays that attempt, or, where the
	// answer is made before anything reaches it, an earlier process has made it.
	doubt    bool
	over     chan struct{} // closed when the test ends
	requests atomic.Int64  // that reached the server
	effects  atomic.Int64
}

// is reports whether the row's answer begins so.
func (s *scene) is(who, answer string) bool {
	return s.Who == who && strings.HasPrefix(s.Answer, answer)
}

// isLost reports whether this request's answer is lost.
func (s *scene) isLost() bool { return s.requests.Add(1) == 1 && s.doubt && !s.isUnseen() }

// isUnseen reports whether the server's handler does not see the attempts.
func (s *scene) isUnseen() bool {
	return s.Failure != "" || s.is("server library", "a request") || s.is("server library", "an unknown") ||
		s.is("client library", "a request") || s.is("client library", "no credentials") || strings.Contains(s.Answer, "before the call")
}

func (s *scene) isGuarded() bool {
	return s.Profile == "" && s.Who != "handler without a guard" && s.Who != "proxy" && s.Who != "guard"
}

// refusal is the status of the row, with the details that it has.
func (s *scene) refusal() *status.Status {
	if s.Who == "guard" {
		situation, _ := wire.Code(s.Code).Situation()
		end, _ := status.New(codes.Code(code.Code_value[situation.GRPC]), situation.Title).WithDetails(ours(wire.Code(s.Code)))
		return end
	}
	end := status.New(codes.Code(code.Code_value[s.Code]), "as the row says")
	if strings.HasSuffix(s.Answer, "RetryInfo") {
		end, _ = end.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Millisecond)})
	}
	return end
}

// instead returns what an interceptor in front of the guard answers in place of everything behind it; nil: nothing.
func (s *scene) instead() *status.Status {
	if s.Who == "guard" || s.Who == "proxy" && s.Code != "OK" {
		return s.refusal()
	}
	return nil
}

// reserve is the handler.
func (s *scene) reserve(ctx context.Context, _ *stockpb.ReserveRequest) (error, bool) {
	switch {
	case s.Failure == "silent":
		<-s.over
	case strings.HasPrefix(s.Who, "handler") && s.Code != "OK":
		if strings.HasSuffix(s.Answer, "releases the key") {
			_ = server.Settle(ctx, server.Release())
		}
		return s.refusal().Err(), true
	}
	s.effects.Add(1)
	return nil, true
}

// check makes the call in one way, and compares its end with that of the row.
func (s *scene) check(t *testing.T, call callFunc) {
	t.Helper()
	want := s.First
	ctx := under(t.Context(), "order-1")
	if s.doubt {
		want = s.Doubt
		if s.isUnseen() {
			ctx = under(wire.NewContext(t.Context(), wire.Inbound{Rerun: true}), "order-1")
		}
	}
	sku := "tea"
	if strings.Contains(s.Answer, "too long") {
		sku = rand.Text() + rand.Text() + rand.Text() + rand.Text() + rand.Text() + rand.Text() + rand.Text() + rand.Text()
	}
	_, err := call(ctx, line(sku))
	if err == nil {
		require.Equal(t, "Completed", want.Outcome)
		require.EqualValues(t, want.Attempts, s.requests.Load())
		if s.isGuarded() {
			require.EqualValues(t, 1, s.effects.Load())
		}
		return
	}
	var failed *retry.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, want, answertest.End{Outcome: failed.Outcome.String(), Attempts: failed.Attempts}, "%v", err)
	switch got := sdkgrpc.Status(err); {
	case s.Who == "guard":
		require.EqualValues(t, s.Code, failed.Code)
		return
	case s.Code == "", s.Code == "OK":
	case got != nil:
		require.Equal(t, s.Code, code.Code(got.Code()).String(), "%v", err)
	default:
		require.Equal(t, codes.Code(code.Code_value[s.Code]), codes.Code(connect.CodeOf(err)), "%v", err)
	}
	if s.effects.Load() > 0 {
		require.NotContains(t, []string{"Rejected", "NotSent"}, want.Outcome, "there is an effect")
	} else {
		require.NotEqual(t, "Completed", want.Outcome, "there is no effect")
	}
}

func (s *scene) policy() retry.Config {
	policy := four()
	policy.MaxAttempts = 3
	if s.Profile != "" {
		policy.Profile = retry.Unguarded()
	}
	if s.Failure == "silent" {
		policy.AttemptTimeout = time.Second
	}
	return policy
}

// byConnect is a client of connect-go that speaks gRPC. Its library reads pages and ends of streams as connect's does.
const byConnect = "connect-go over gRPC"

// playAnswers plays each row of a protocol, first and in doubt, in each way of making calls that it gets.
func playAnswers(t *testing.T, protocol string, ways map[string]func(*testing.T, *scene) callFunc) {
	t.Helper()
	for _, r := range answertest.Rows(t, answers, protocol) {
		t.Run(r.Name(), func(t *testing.T) {
			t.Parallel()
			for way, open := range ways {
				ofGRPCGo := strings.HasPrefix(r.Who, "client") || r.Who == "transport" || r.Status != 0
				if r.Only != "" && r.Only != way || way == byConnect && ofGRPCGo {
					continue
				}
				for _, doubt := range []bool{false, true} {
					s := &scene{Row: r, doubt: doubt, over: make(chan struct{})}
					call := open(t, s)
					t.Cleanup(func() { close(s.over) }) // before the servers
					s.check(t, call)
				}
			}
		})
	}
}

func TestAnswers_overGRPC(t *testing.T) {
	t.Parallel()
	playAnswers(t, "grpc", map[string]func(*testing.T, *scene) callFunc{
		"operation": func(t *testing.T, s *scene) callFunc {
			service, err := sdkgrpc.Service(s.dial(t, s.listenGRPC(t)), s.policy())
			client := newClient(t, service, err)
			return func(ctx context.Context, in *stockpb.ReserveRequest) (*stockpb.Hold, error) {
				return sdk.Call(ctx, client, reserve, in)
			}
		},
		"generated": func(t *testing.T, s *scene) callFunc {
			service, err := sdkgrpc.Service(nil, s.policy())
			unary, err := sdkgrpc.UnaryClientInterceptor(newClient(t, service, err), "stock")
			require.NoError(t, err)
			stub := stockpb.NewStockClient(s.dial(t, s.listenGRPC(t), grpc.WithChainUnaryInterceptor(unary)))
			return func(ctx context.Context, in *stockpb.ReserveRequest) (*stockpb.Hold, error) {
				return stub.Reserve(ctx, in)
			}
		},
	})
}

// dial connects as the row's client does.
func (s *scene) dial(t *testing.T, addr string, outer ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	options := append(outer, grpc.WithTransportCredentials(insecure.NewCredentials()))
	watched, mine := sdkgrpc.DialOptions(), []grpc.DialOption(nil)
	switch {
	case strings.HasSuffix(s.Answer, "without DialOptions"):
		watched = nil
		mine = append(mine, grpc.WithChainUnaryInterceptor(s.refuseCall))
	case strings.Contains(s.Answer, "outside the interceptor"):
		options = append(options, grpc.WithChainUnaryInterceptor(s.refuseCall))
	case s.Who == "client interceptor":
		mine = append(mine, grpc.WithChainUnaryInterceptor(s.refuseCall))
	case s.is("client library", "an answer"):
		mine = append(mine, grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxBytes)))
	case s.is("client library", "a request"):
		mine = append(mine, grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(maxBytes)))
	case s.is("client library", "no credentials"):
		mine = append(mine, grpc.WithPerRPCCredentials(noCredentials{}))
	}
	conn, err := grpc.NewClient(addr, append(append(options, watched...), mine...)...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// refuseCall answers a call with the row's status, before it leaves or in place of its OK.
func (s *scene) refuseCall(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if strings.Contains(s.Answer, "before the call") {
		return s.refusal().Err()
	}
	if err := next(ctx, method, req, reply, cc, opts...); err != nil {
		return err
	}
	return s.refusal().Err()
}

type noCredentials struct{}

func (noCredentials) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return nil, errors.New("the token has expired")
}
func (noCredentials) RequireTransportSecurity() bool { return false }

// listenGRPC serves the row.
func (s *scene) listenGRPC(t *testing.T) string {
	t.Helper()
	switch {
	case s.Status != 0:
		return strings.TrimPrefix(s.page(t), "http://")
	case s.Failure == "refused":
		return nobody(t)
	case s.Failure != "" && s.Failure != "silent":
		return s.resetStreams(t)
	}
	options := []grpc.ServerOption{grpc.ChainUnaryInterceptor(s.inFront)}
	if s.isGuarded() {
		options = append(options, newGuarded(t).ServerOptions()...)
	}
	if s.is("server library", "a request") {
		options = append(options, grpc.MaxRecvMsgSize(maxBytes))
	}
	if s.is("server library", "an answer") {
		options = append(options, grpc.MaxSendMsgSize(maxBytes))
	}
	if s.is("server library", "an unknown") {
		return listenGRPC(t, nil, options...)
	}
	return listenGRPC(t, &stock{reserve: s.reserve}, options...)
}

// inFront is what stands before the guard.
func (s *scene) inFront(ctx context.Context, in any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if s.isLost() {
		_, _ = next(grpc.NewContextWithServerTransportStream(ctx, lostStream{}), in)
		return nil, status.Error(codes.Unavailable, "lost")
	}
	if end := s.instead(); end != nil {
		if s.Who == "guard" {
			_ = grpc.SetHeader(ctx, metadata.Pairs("idempotency-code", s.Code))
		}
		return nil, end.Err()
	}
	out, err := next(ctx, in)
	if s.Who == "server interceptor" {
		return nil, s.refusal().Err()
	}
	return out, err
}

// A lostStream takes the metadata of an answer that is lost.
type lostStream struct{}

func (lostStream) Method() string               { return stockpb.Stock_Reserve_FullMethodName }
func (lostStream) SetHeader(metadata.MD) error  { return nil }
func (lostStream) SendHeader(metadata.MD) error { return nil }
func (lostStream) SetTrailer(metadata.MD) error { return nil }

// page answers everything with a page.
func (s *scene) page(t *testing.T) string {
	t.Helper()
	both := new(http.Protocols)
	both.SetHTTP1(true)
	both.SetUnencryptedHTTP2(true)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if s.isLost() {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(s.Status)
		_, _ = io.WriteString(w, "<!DOCTYPE html>")
	}))
	srv.Config.Protocols = both
	srv.Start()
	t.Cleanup(srv.Close)
	return srv.URL
}

// resetStreams serves HTTP/2, and resets each stream with the row's code when its request is there. "closed" closes the
// connection. The handler has run, unless the code says that nothing was processed.
func (s *scene) resetStreams(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	var reset http2.ErrCode
	for reset.String() != s.Failure && s.Failure != "closed" {
		require.Less(t, reset, http2.ErrCode(20), "no code %s", s.Failure)
		reset++
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go s.resetConn(conn, reset)
		}
	}()
	return l.Addr().String()
}

func (s *scene) resetConn(conn net.Conn, reset http2.ErrCode) {
	defer conn.Close() //nolint:errcheck // it is gone
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	framer := http2.NewFramer(conn, conn)
	_ = framer.WriteSettings()
	for {
		f, err := framer.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = framer.WriteSettingsAck()
			}
		case *http2.DataFrame:
			if !f.StreamEnded() {
				continue
			}
			if reset != http2.ErrCodeRefusedStream && reset != http2.ErrCodeInadequateSecurity {
				s.effects.Add(1)
			}
			if s.Failure == "closed" {
				return
			}
			_ = framer.WriteRSTStream(f.StreamID, reset)
		}
	}
}

// nobody returns an address where nobody listens: the local end of a connection that is open.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(); _ = l.Close() })
	return conn.LocalAddr().String()
}

func TestAnswers_overConnect(t *testing.T) {
	t.Parallel()
	playAnswers(t, "connect", map[string]func(*testing.T, *scene) callFunc{
		"operation": func(t *testing.T, s *scene) callFunc {
			policy := s.policy()
			if s.is("client library", "an answer") {
				policy.MaxResponseBytes = maxBytes
			}
			service, err := sdkgrpc.ConnectService(s.listenConnect(t), policy)
			client := newClient(t, service, err)
			return func(ctx context.Context, in *stockpb.ReserveRequest) (*stockpb.Hold, error) {
				return sdk.Call(ctx, client, reserve, in)
			}
		},
		"generated": func(t *testing.T, s *scene) callFunc {
			return s.generatedByConnect(t, s.listenConnect(t), nil)
		},
	})
}

// generatedByConnect is the way of a client that connect-go generated. Without protocols it speaks connect over HTTP/1.1.
func (s *scene) generatedByConnect(t *testing.T, url string, protocols *http.Protocols, options ...connect.ClientOption) callFunc {
	t.Helper()
	service, err := sdkgrpc.Service(nil, s.policy())
	interceptor, err := sdkgrpc.ConnectInterceptor(newClient(t, service, err), "stock")
	require.NoError(t, err)
	options = append(options, connect.WithInterceptors(interceptor))
	switch {
	case s.Who == "client interceptor":
		options = append(options, connect.WithInterceptors(s.interceptor(false)))
	case s.is("client library", "an answer"):
		options = append(options, connect.WithReadMaxBytes(maxBytes))
	case s.is("client library", "a request"):
		options = append(options, connect.WithSendMaxBytes(maxBytes))
	}
	web := &http.Client{Transport: &http.Transport{Protocols: protocols}}
	t.Cleanup(web.CloseIdleConnections)
	stub := stockpbconnect.NewStockClient(web, url, options...)
	return func(ctx context.Context, in *stockpb.ReserveRequest) (*stockpb.Hold, error) {
		out, err := stub.Reserve(ctx, connect.NewRequest(in))
		if err != nil {
			return nil, err
		}
		return out.Msg, nil
	}
}

// interceptor is that of the row's client, or what stands in front of the server's guard.
func (s *scene) interceptor(ofServer bool) connect.Interceptor {
	return connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, in connect.AnyRequest) (connect.AnyResponse, error) {
			end := s.instead()
			switch {
			case ofServer && s.isLost():
				_, _ = next(context.Background(), in) // a ctx without this answer's header
				return nil, connect.NewError(connect.CodeUnavailable, errors.New("lost"))
			case ofServer && s.Who == "guard":
				return nil, connectError(end, []string{"idempotency-code", s.Code})
			case ofServer && end != nil, strings.Contains(s.Answer, "before the call"):
				return nil, connectError(cmp.Or(end, s.refusal()), nil)
			}
			out, err := next(ctx, in)
			if err == nil && (ofServer && s.Who == "server interceptor" || !ofServer) {
				return nil, connectError(s.refusal(), nil)
			}
			return out, err
		}
	})
}

// listenConnect serves the row at the URL that it returns.
func (s *scene) listenConnect(t *testing.T) string {
	t.Helper()
	switch {
	case s.Status != 0:
		return s.page(t)
	case s.Failure == "refused":
		return "http://" + nobody(t)
	case s.Failure == "closed":
		return answertest.Serve(t, s.Row, false)
	}
	options := []connect.HandlerOption{connect.WithInterceptors(s.interceptor(true))}
	if s.isGuarded() {
		options = append(options, connect.WithInterceptors(newGuarded(t)))
	}
	if s.is("server library", "a request") {
		options = append(options, connect.WithReadMaxBytes(maxBytes))
	}
	if s.is("server library", "an answer") {
		options = append(options, connect.WithSendMaxBytes(maxBytes))
	}
	return "http://" + listenConnect(t, &stock{reserve: func(ctx context.Context, in *stockpb.ReserveRequest) (error, bool) {
		err, done := s.reserve(ctx, in)
		if err != nil {
			err = connectError(status.Convert(err), nil)
		}
		return err, done
	}}, options...)
}

// TestAnswers_areTotal finds a row for each code and each maker of it, for each code of a guard, and for each code by which
// HTTP/2 resets a stream. No answer but that of the service turns a doubt into a refusal.
func TestAnswers_areTotal(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"grpc", "connect"} {
		type made struct{ who, code string }
		have := make(map[made]bool)
		for _, r := range answertest.Rows(t, answers, protocol) {
			have[made{r.Who, cmp.Or(r.Failure, r.Code)}] = true
			if r.Who != "handler" && r.Who != "guard" {
				require.NotContains(t, []string{"Rejected", "NotSent"}, r.Doubt.Outcome, r.Name())
			}
		}
		for number, name := range code.Code_name {
			for _, who := range []string{"handler", "handler without a guard", "proxy", "server interceptor", "client interceptor"} {
				if number != 0 || !strings.HasSuffix(who, "interceptor") {
					require.True(t, have[made{who, name}], "%s: no row for %s by a %s", protocol, name, who)
				}
			}
		}
		for _, s := range wire.Situations() {
			require.True(t, have[made{"guard", string(s.Code)}], "%s: no row for %s", protocol, s.Code)
		}
		for reset := http2.ErrCodeNo; protocol == "grpc" && reset <= http2.ErrCodeHTTP11Required; reset++ {
			require.True(t, have[made{"transport", reset.String()}], "no row for a stream reset with %s", reset)
		}
	}
}
