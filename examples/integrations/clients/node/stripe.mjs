import Stripe from 'stripe';
import { wholeFetch } from './whole.mjs';

export const defaults = (url) => calls(url, {});

export const recommended = (url) =>
  calls(url, {
    maxNetworkRetries: 10,
    timeout: 10_000, // of one attempt
    httpClient: Stripe.createFetchHttpClient(wholeFetch), // else a cut answer is "Invalid JSON", and final
  });

function calls(url, options) {
  const { hostname: host, port } = new URL(url);
  const stripe = new Stripe('sk_test_none', { protocol: 'http', host, port, ...options });
  return async (key, amount) => {
    const charge = await stripe.charges.create({ amount, currency: 'eur' }, { idempotencyKey: key });
    return charge.id;
  };
}

export const statusOf = (error) => error.statusCode;
