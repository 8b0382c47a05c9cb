package sdk_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
)

func TestNew_refusesBadConfig(t *testing.T) {
	t.Parallel()
	one := func(s sdk.Service) sdk.Config { return sdk.Config{Services: map[string]sdk.Service{"inventory": s}} }
	at := func(url string) sdk.Config { return one(sdk.Service{URL: url}) }
	with := func(p *retry.Profile) sdk.Config { return one(sdk.Service{URL: "http://h", Profile: p}) }
	shared := func(p *retry.Profile) sdk.Config {
		return sdk.Config{Services: map[string]sdk.Service{"inventory": {URL: "http://h"}}, Retry: retry.Config{Profile: p}}
	}
	negative := at("http://h")
	negative.MaxParallel = -1
	tests := []struct {
		name string
		cfg  sdk.Config
		want string // in the error's text: field and value
		is   error
	}{
		{"no services", sdk.Config{}, "Services: empty", nil},
		{"empty services", sdk.Config{Services: map[string]sdk.Service{}}, "Services: empty", nil},
		{"empty name", sdk.Config{Services: map[string]sdk.Service{"": {URL: "http://h"}}}, `Services[""]`, childkey.ErrEmpty},
		{"colon in name", sdk.Config{Services: map[string]sdk.Service{"a:b": {URL: "http://h"}}}, `Services["a:b"]`, childkey.ErrBadName},
		{"negative parallelism", negative, "MaxParallel: -1", nil},
		{"no URL", at(""), `Services["inventory"].URL: empty`, nil},
		{"no scheme", at("inventory:8080"), "URL: scheme", nil},
		{"relative", at("/inventory"), `URL: scheme ""`, nil},
		{"other scheme", at("ftp://h"), `URL: scheme "ftp"`, nil},
		{"no host", at("http://"), "URL: no host", nil},
		{"port alone", at("http://:80"), "URL: no host", nil},
		{"port beyond the last", at("http://h:65536"), "URL: port 65536", nil},
		{"query", at("http://h/?a=1"), "URL: has a query", nil},
		{"empty query", at("http://h/?"), "URL: has a query", nil},
		{"fragment", at("http://h/#f"), "URL: has a fragment", nil},
		{"empty fragment", at("http://h/#"), "URL: has a fragment", nil},
		{"user", at("http://me:secret@h"), "URL: has user information", nil},
		{"control character", at("http://h/\x00"), "URL:", nil},
		{"bad escape", at("http://h/%zz"), "URL:", nil},
		{"key header", one(sdk.Service{URL: "http://h", Header: http.Header{"Idempotency-Key": {"k"}}}), "Header:", sdk.ErrRequest},
		{"header name", one(sdk.Service{URL: "http://h", Header: http.Header{"a b": {"k"}}}), `Header: "a b" is no header name`, nil},
		{"header value", one(sdk.Service{URL: "http://h", Header: http.Header{"A": {"x\r\ny"}}}), "Header:", sdk.ErrRequest},
		{"retry", one(sdk.Service{URL: "http://h", Retry: &retry.Config{MaxAttempts: -1}}), "Retry: MaxAttempts: -1", retry.ErrConfig},
		{"long keys", with(&retry.Profile{Encoding: childkey.Hex64, MaxKeyBytes: 40}), "Profile.Encoding:", retry.ErrConfig},
		{"no encoding", with(&retry.Profile{Encoding: 99}), "Profile.Encoding:", childkey.ErrBadEncoding},
		{"retention shorter than a call", one(sdk.Service{URL: "http://h", Retry: &retry.Config{Timeout: time.Minute, Profile: &retry.Profile{Retention: time.Minute}}}), "Profile.Retention: 1m0s, 57s with its margin, is not longer than one call may take: 1m0s", nil},
		{"profile twice", one(sdk.Service{URL: "http://h", Profile: retry.Stripe(), Retry: &retry.Config{Profile: retry.Adyen()}}), "Retry.Profile:", nil},
		{"profile of the service's retries", one(sdk.Service{URL: "http://h", Retry: &retry.Config{Profile: &retry.Profile{MaxKeyBytes: 9}}}), "Retry: Profile.Encoding:", retry.ErrConfig},
		{"profile for all", shared(&retry.Profile{MaxKeyBytes: 9}), "sdk: bad config: Retry: Profile.Encoding:", retry.ErrConfig},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := sdk.New(tt.cfg)
			require.ErrorIs(t, err, sdk.ErrConfig)
			require.ErrorContains(t, err, tt.want)
			require.NotContains(t, err.Error(), "secret@", "a password is in the text")
			if tt.is != nil {
				require.ErrorIs(t, err, tt.is)
			}
		})
	}
}

func TestNew_takesReadyMadeProfiles(t *testing.T) {
	t.Parallel()
	for _, p := range []*retry.Profile{retry.Fanonce(), retry.Stripe(), retry.Adyen(), retry.UUIDOnly()} {
		_, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"s": {URL: "http://h", Profile: p}}})
		require.NoError(t, err)
	}
}
