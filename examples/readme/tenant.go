package readme

import (
	"errors"
	"net/http"
)

var errNoTenant = errors.New("readme: no tenant")

// tenant is whose keys they are: from the authentication, never from the caller's
// word. Here a proxy in front is trusted to have checked who calls.
func tenant(r *http.Request) (string, error) {
	if t := r.Header.Get("X-Authenticated-Tenant"); t != "" {
		return t, nil
	}
	return "", errNoTenant
}
