package sdkgrpc

import (
	"errors"
	"fmt"
	"net/http"

	"google.golang.org/grpc"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
)

// ErrConfig is wrapped by the errors of the constructors of this package: an argument is wrong.
var ErrConfig = errors.New("sdkgrpc: bad argument")

// serviceURL stands where a service over HTTP has its address. No call goes there.
const serviceURL = "http://grpc.invalid"

// Service returns a callee of [sdk.Config] that is called over conn. Dial conn with [DialOptions]. A
// nil conn serves the interceptors of this package alone: they have connections of their own.
//
// policy is how attempts are made. Its Transport must be nil. Without a Profile it gets
// [retry.Fanonce]. Without a Classify the profile gets the table of gRPC's codes
// ([retry.GRPCVerdict]). The Header and the HeaderFunc of the result may be set: they are metadata. The
// error wraps [ErrConfig].
func Service(conn grpc.ClientConnInterface, policy retry.Config) (sdk.Service, error) {
	if policy.Transport != nil {
		return sdk.Service{}, fmt.Errorf("%w: Transport: the calls go over conn", ErrConfig)
	}
	t := &transport{conn: conn}
	policy.Transport = t
	if err := addClassify(&policy, t, classify); err != nil {
		return sdk.Service{}, err
	}
	return sdk.Service{URL: serviceURL, Retry: &policy}, nil
}

// ConnectService returns a callee of [sdk.Config] that is called in the unary protocol of connect,
// at url, which is all that comes before "/stock.v1.Stock/Reserve". Its requests are plain HTTP, so
// policy may have a Transport; nil means a [retry.NewTransport] that no client closes, with idle connections
// of 90 s at most. The interceptors of this package make calls of the service over their own connections.
// Everything else is as in [Service].
func ConnectService(url string, policy retry.Config) (sdk.Service, error) {
	if url == "" {
		return sdk.Service{}, fmt.Errorf("%w: url: empty", ErrConfig)
	}
	if policy.Transport == nil {
		policy.Transport = retry.NewTransport()
	}
	t := &transport{plain: policy.Transport}
	policy.Transport = t
	if err := addClassify(&policy, t, t.classifyConnect); err != nil {
		return sdk.Service{}, err
	}
	return sdk.Service{URL: url, Retry: &policy, Header: http.Header{"Connect-Protocol-Version": {"1"}}}, nil
}

// addClassify gives policy a profile of its own with a Classify.
func addClassify(policy *retry.Config, t *transport, classify func(retry.Answer) (retry.Verdict, bool)) error {
	if policy.Profile == nil {
		policy.Profile = retry.Fanonce()
	}
	profile := *policy.Profile
	if profile.BodyField != "" {
		return fmt.Errorf("%w: Profile.BodyField: %q: a message is no JSON object that could carry the key", ErrConfig, profile.BodyField)
	}
	if profile.Classify == nil {
		profile.Classify = classify
	}
	policy.Profile, t.guarded = &profile, profile.MarksAnswers
	return nil
}
