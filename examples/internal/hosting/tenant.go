package hosting

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/server"
)

// ErrNoTenant: the request has no bearer token.
var ErrNoTenant = errors.New("no bearer token")

// Tenant is the scope of every key: who the caller is, from its authentication. A real service
// would verify the token; these take the token itself for the tenant's name. Its error is a
// [*server.StatusError]: 401 wrapping [ErrNoTenant], or 400 for a name that is too long or not
// UTF-8.
func Tenant(r *http.Request) (string, error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || token == "" {
		return "", &server.StatusError{Status: http.StatusUnauthorized, Err: ErrNoTenant}
	}
	if childkey.CheckScope(token) != nil {
		return "", &server.StatusError{
			Status: http.StatusBadRequest, Err: ErrBadInput,
			Detail: fmt.Sprintf("The tenant must be at most %d bytes of UTF-8 without NUL.", childkey.MaxScopeBytes),
		}
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
