package hosting

import (
	"context"
	"errors"
	"net/http"
	"strings"
)

// ErrNoTenant: the request has no bearer token.
var ErrNoTenant = errors.New("no bearer token")

// Tenant is the scope of every key: who the caller is, from its
// authentication. A real service would verify the token; these take the token
// itself for the tenant's name.
func Tenant(r *http.Request) (string, error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || token == "" {
		return "", ErrNoTenant
	}
	return token, nil
}

// Bearer returns the Authorization of a tenant, whose name is its token here. A
// real service would have a token made for the calls of its sagas.
func Bearer(tenant string) string { return "Bearer " + tenant }

type authorizationKey struct{}

// WithAuthorization lets the calls that next makes pass its caller's
// authorization on.
func WithAuthorization(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := context.WithValue(r.Context(), authorizationKey{}, r.Header.Get("Authorization"))
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Authorize puts the authorization that ctx carries into the header of a call.
func Authorize(ctx context.Context, header http.Header) error {
	text, ok := ctx.Value(authorizationKey{}).(string)
	if !ok || text == "" {
		return ErrNoTenant
	}
	header.Set("Authorization", text)
	return nil
}
