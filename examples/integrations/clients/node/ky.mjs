import ky from 'ky';
import { wholeFetch } from './whole.mjs';

export const defaults = (url) => calls(ky.create({ prefixUrl: url }));

export const recommended = (url) =>
  calls(
    ky.create({
      prefixUrl: url,
      timeout: 10_000, // of one attempt
      fetch: wholeFetch, // else a cut answer is final
      retry: {
        methods: ['post'],
        statusCodes: [408, 409, 429, 500, 502, 503, 504],
        afterStatusCodes: [409, 429, 503],
        limit: 10,
        backoffLimit: 2_000,
        retryOnTimeout: true,
      },
    }),
  );

function calls(client) {
  return async (key, amount) => {
    const charge = await client.post('charges', { json: { amount }, headers: { 'Idempotency-Key': key } }).json();
    return charge.id;
  };
}

export const statusOf = (error) => error.response?.status;
