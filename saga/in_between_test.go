package saga_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga/sagatest"
)

// The first answer is lost after the effect, and an ingress without a backend answers the next attempts, as during a
// deployment. The saga asks again. An answer of the ingress does not make it undo the charge.
func TestRun_ingressAfterALostAnswer(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 401, 403, 404, 405, 410, 422, 429, 501, 502, 503, 505} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				s.services.Script("payment.charge", sagatest.LoseAnswer(), sagatest.Gateway(status), sagatest.Gateway(status))
				_, err := checkout.Run(s.Context(), s.open(checkout), key(s.T, "k"), basket)
				require.NoError(s, err)
				s.wantEffects("payment.charge", 1, 0)
			})
		})
	}
}

// A proxy answers 2xx instead of the service, as with a page to sign in. That is not the result of a step: the saga asks
// again, and takes the service's own answer.
func TestRun_proxyAnswersForTheService(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusOK, http.StatusAccepted, http.StatusNoContent} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				s.services.Script("payment.charge", sagatest.Gateway(status), sagatest.Gateway(status))
				_, err := checkout.Run(s.Context(), s.open(checkout), key(s.T, "k"), basket)
				require.NoError(s, err)
				s.wantEffects("payment.charge", 1, 0)
			})
		})
	}
}
